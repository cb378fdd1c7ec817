/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One-line errors; see error.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/error.h"

bool ddr_own_failure(int error)
{
	return error == ENOMEM || error == EMFILE || error == ENFILE || error == EINTR || error == ENOBUFS || error == ENOLCK;
}

int ddr_error_set(struct ddr_error *err, const char *format, ...)
{
	va_list args;

	if (!err)
		return -1;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	err->own = false;
	return -1;
}

int ddr_error_call(struct ddr_error *err, int error, const char *format, ...)
{
	va_list args;

	if (!err)
		return -1;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	err->own = ddr_own_failure(error);
	return -1;
}

int ddr_error_prefix(struct ddr_error *err, const char *format, ...)
{
	char old[DDR_ERROR_LEN];
	size_t used;
	va_list args;

	if (!err)
		return -1;
	memcpy(old, err->text, sizeof(old));
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s", old);
	return -1;
}
