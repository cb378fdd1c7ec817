#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes configure and Makefile.in from configure.ac and Makefile.am.
set -eu
cd "$(dirname "$0")"
command -v autoreconf >/dev/null ||
	{ echo "autogen.sh: autoreconf is missing: apt-get install autoconf automake" >&2; exit 1; }
command -v pkg-config >/dev/null ||
	{ echo "autogen.sh: pkg-config is missing: apt-get install pkg-config" >&2; exit 1; }
exec autoreconf --install --warnings=all
