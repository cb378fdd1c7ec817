# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# shellcheck disable=SC2154 # top, build, logs and so on are quickstart's
# The parts of `quickstart check`, which sources this file. A part that fails
# does not stop the next; each leaves its output in build/log and says how many
# tests passed and failed. A part without a tally counts as one test.

check_parts="unit sanitizers valgrind warnings style kernels release pytest"
other_suites="trixie sid" # Debian releases whose kernels are tested besides the machine's own
total_passed=0
total_failed=0

tally() { # tally PASSED FAILED: what a part says about itself
	local passed=0 failed=0
	[ -e "$logs/tally" ] && read -r passed failed <"$logs/tally"
	echo "$((passed + $1)) $((failed + $2))" >"$logs/tally"
}

run_part() { # run_part TITLE COMMAND...: prints its counts and time, adds them up
	local title=$1 start=$SECONDS log passed=0 failed=0 rc
	shift
	log=$logs/check-${title//[ ,:\/]/-}.log
	rm -f "$logs/tally"
	printf '%-34s ' "$title"
	("$@") >"$log" 2>&1 </dev/null
	rc=$?
	if [ -e "$logs/tally" ]; then
		read -r passed failed <"$logs/tally"
	elif [ "$rc" = 0 ]; then
		passed=1
	fi
	((rc != 0 && failed == 0)) && failed=1
	((total_passed += passed, total_failed += failed))
	printf '%4d passed, %d failed   %s\n' "$passed" "$failed" "$(elapsed "$start")"
	((failed == 0)) || show_failure "$log"
}

show_failure() { # show_failure LOG: what a compiler complained about, and how it ended
	{
		grep -E 'error: |undefined reference|^(FAIL|ERROR):' "$1" | head -n 10
		tail -n 30 "$1"
	} | sed 's/^/    /'
	echo "    (all of it: $1)"
}

#---------------------------------------------------------------------------
# Userspace

run_unit() { # run_unit DIRECTORY all|short: make check there, counted
	local rc=0 counts
	find "$1" -name '*.trs' -delete
	DDRAID_TESTS=$2 make -C "$1" -k -j"$(nproc)" check || rc=1
	counts=$(/usr/bin/python3 "$top/tests/tally.py" make "$1") && tally "${counts% *}" "${counts#* }"
	if ((rc)); then find "$1" -name '*.trs' -exec grep -L 'global-test-result: PASS' {} + |
		while read -r trs; do tail -n 15 "${trs%.trs}.log"; done; fi
	return "$rc"
}

part_unit() { run_unit "$build" all; }

# The same code runs with fewer seeds and cuts: what more of them find are wrong results, which the part above sees without sanitizers.
part_sanitizers() {
	configure_in "$build/sanitizers" --enable-sanitizers --enable-werror &&
		UBSAN_OPTIONS=print_stacktrace=1 run_unit "$build/sanitizers" short
}

# What memcheck sees and the sanitizers do not is memory that was never set. Left out: test-job, since valgrind does not
# know what io_uring writes, and those that only do more of the same for minutes.
part_valgrind() { # one test for each program
	local name ok=0 bad=0 programs=""
	for name in assemble conf crc32c devio drive format format-log geometry layout msg parity sm-cluster sm-error sm-ex sm-member sm-wait transport; do
		programs+=" tests/unit/test-$name"
	done
	programs+=" tests/scenarios/run"
	# shellcheck disable=SC2086
	make -C "$build" -j"$(nproc)" $programs tests/sim/ddrsim-daemon || return 1
	for name in $programs; do
		echo "== $name"
		if (cd "$build" && srcdir=$top valgrind -q --leak-check=full --errors-for-leak-kinds=definite,possible \
			--error-exitcode=9 "./$name"); then
			ok=$((ok + 1))
		else
			bad=$((bad + 1))
			echo "FAIL: $name under valgrind"
		fi
	done
	tally "$ok" "$bad"
	((ok > 0 && bad == 0))
}

#---------------------------------------------------------------------------
# What the compiler, checkpatch and other kernels say

no_warnings() { # no_warnings COMMAND...: fails on a line that warns, too
	local out rc findings
	out=$("$@" 2>&1)
	rc=$?
	echo "$out"
	# Kbuild compares compilers by their full version string; that line is no finding.
	findings=$(grep -i 'warning: ' <<<"$out" | grep -v 'compiler differs from the one used')
	[ -z "$findings" ] || { printf '\nwarnings:\n%s\n' "$findings"; return 1; }
	return "$rc"
}

part_warnings() {
	configure_in "$build/werror" --enable-werror --with-kernel="$(kernel_dir)" &&
		make -C "$build/werror" clean && no_warnings make -C "$build/werror" -j"$(nproc)"
}

checkpatch() { # the distribution's own, taken out of its kernel source once
	local version dir source
	# shellcheck disable=SC2016
	version=$(dpkg-query -W -f '${Version}' linux-source-6.1) || return 1
	dir=$DDRAID_CACHE/checkpatch-$version
	source=linux-source-6.1/scripts
	if [ ! -e "$dir/checkpatch.pl" ]; then
		rm -rf "$dir.new" && mkdir -p "$dir.new" &&
			tar -xf /usr/src/linux-source-6.1.tar.xz -C "$dir.new" --strip-components=2 \
				$source/checkpatch.pl $source/spelling.txt $source/const_structs.checkpatch &&
			mv "$dir.new" "$dir" || return 1
	fi
	perl "$dir/checkpatch.pl" --no-tree --quiet --show-types --file "$@"
}

clang_build() { # the programs and their tests, as clang sees them: what it warns about does not depend on how much it optimizes
	configure_in "$build/clang" CC=clang CFLAGS=-O0 --enable-werror && no_warnings make -C "$build/clang" -j"$(nproc)" all &&
		no_warnings make -C "$build/clang" -j"$(nproc)" check TESTS=
}

# Not among the parts that run without being asked for, which have to end within 45 minutes: it takes four of them. ./quickstart check lint
part_lint() { # what clang, clang-tidy and cppcheck say of userspace
	local rc=0
	if clang_build; then tally 1 0; else tally 0 1 && rc=1; fi
	"$top/tests/lint/run" "$build" clang-tidy cppcheck >"$logs/lint.log" 2>&1 || rc=1
	cat "$logs/lint.log"
	# shellcheck disable=SC2046 # two words
	tally $(awk '/^[0-9]+ passed, [0-9]+ failed$/ { n++; ok += $1; bad += $3 } END { print ok + 0, bad + 1 - n }' "$logs/lint.log")
	return "$rc"
}

part_style() { # one test for each kernel source file, and what tests/lint/run counts
	local file ok=0 bad=0 counts lint=$logs/lint.log
	# checkpatch has one processor for itself; what else looks at the sources runs beside it
	"$top/tests/lint/run" "$build" shellcheck sparse >"$lint" 2>&1 &
	# Both types are about kernel versions in code, which an out-of-tree module needs.
	while read -r file; do
		if checkpatch --ignore LINUX_VERSION_CODE,CONSTANT_COMPARISON "$top/$file"; then
			ok=$((ok + 1))
		else
			bad=$((bad + 1))
		fi
	done < <(cd "$top" && find kernel tests/modules -name '*.[ch]' 2>/dev/null | sort)
	wait
	cat "$lint"
	# a count that is missing is a failure
	counts=$(awk '/^[0-9]+ passed, [0-9]+ failed$/ { n++; ok += $1; bad += $3 } END { print ok + 0, bad + 1 - n }' "$lint")
	tally "$((ok + ${counts% *}))" "$((bad += ${counts#* }))"
	((ok > 0 && bad == 0))
}

chroot_release() { # chroot_release SUITE: the kernel whose headers the chroot holds
	find "$DDRAID_CACHE/chroot-$1/usr/src" -name 'linux-headers-*-amd64' \
		-printf '%f\n' 2>/dev/null | sed 's/^linux-headers-//'
}

need_chroot() { # need_chroot SUITE RELEASE: a system of that suite with gcc, make, the kernel's headers
	[ "$(chroot_release "$1")" = "$2" ] && return 0
	rm -rf "$DDRAID_CACHE/chroot-$1"
	harness chroot "$1" && [ "$(chroot_release "$1")" = "$2" ]
}

in_chroot() { # in_chroot SUITE COMMAND...: with /proc, which objtool reads, and no other mounts
	local suite=$1
	shift
	unshare --mount --pid --fork --root="$DDRAID_CACHE/chroot-$suite" --mount-proc "$@"
}

build_in_chroot() { # build_in_chroot SUITE RELEASE WHAT: warnings are errors
	local dir=build/$3 root=$DDRAID_CACHE/chroot-$1
	rm -rf "${root:?}/$dir"
	"$top/packaging/stage-kernel-source" copy "$3" "$top" "$root/$dir" &&
		no_warnings in_chroot "$1" make -C "/usr/src/linux-headers-$2" \
			M="/$dir" KCFLAGS=-Werror -j"$(nproc)" modules &&
		collect_modules "$2" "$root/$dir"
}

build_for_debug() { # build_for_debug WHAT: in the debug kernel's own tree; warnings are errors
	local dir=$build/debug/$1
	rm -rf "$dir"
	"$top/packaging/stage-kernel-source" copy "$1" "$top" "$dir" &&
		no_warnings make -C "$DDRAID_CACHE/kernel-with-debugging/tree" M="$dir" KCFLAGS=-Werror \
			-j"$(nproc)" modules
}

part_debug() { # the modules for the kernel that finds mistakes, which is built first
	local release updates
	release=$(harness release debug) && build_for_debug ddraid && build_for_debug tests &&
		collect_modules "$release" "$build/debug" || return 1
	updates=$stage/lib/modules/$release/updates
	mkdir -p "$updates" && cp "$build/modules/$release/dm-ddraid.ko" "$updates/"
}

part_kernel() { # part_kernel SUITE: the modules for that suite's kernel, kept for the tests that boot it
	local release updates
	release=$(harness release "$1") || return 1
	if ! need_chroot "$1" "$release"; then
		# The archive has a newer kernel than the tests' cache: take the newer one for both.
		rm -f "$DDRAID_CACHE/kernel-suite-$1"
		release=$(harness release "$1") && need_chroot "$1" "$release" || return 1
	fi
	build_in_chroot "$1" "$release" ddraid || return 1
	[ ! -e "$top/tests/modules/Kbuild" ] || build_in_chroot "$1" "$release" tests || return 1
	updates=$stage/lib/modules/$release/updates
	mkdir -p "$updates" && cp "$build/modules/$release/dm-ddraid.ko" "$updates/"
}

#---------------------------------------------------------------------------
# Release and virtual machines

# Of the unit tests, which have run by then, those that read files of the source tree run once more, from the release.
part_release() { # make distcheck, and nothing of the repository is left out of a release
	make -C "$build" -j"$(nproc)" distcheck TESTS="tests/scenarios/run tests/unit/test-conf" && tally 1 0 || return 1
	[ -e "$top/.git" ] || return 0
	tar -tf "$build"/ddraid-*.tar.xz | sed -n 's|^[^/]*/\(.*[^/]\)$|\1|p' | sort >"$logs/in-release"
	git -C "$top" ls-files | grep -v '^\.gitignore$' | sort >"$logs/in-git"
	! comm -13 "$logs/in-release" "$logs/in-git" | sed 's/^/not in the release: /' | grep . && tally 1 0
}

# Half of a virtual machine's test is waiting: for its firmware, for one process after the other, for time limits. So
# files of such tests run side by side, one more than there are processors, but no more of them than fit into the memory of a small machine.
vm_workers() {
	local cores
	cores=$(nproc)
	echo $((cores < 3 ? cores + 1 : 4))
}

run_pytest() { # run_pytest DIRECTORY
	local dir=$1 xml counts rc=0
	set --
	[ "$dir" != tests/vm ] || set -- -n "$(vm_workers)" --dist loadfile -m "not slow"	# drill slow_tests runs the slow ones
	xml=$logs/${dir//\//-}.xml
	rm -f "$xml"
	PYTHONPATH=$top/tests/vm PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -p no:cacheprovider -q -ra --durations=10 --junitxml="$xml" \
		"$@" "$top/$dir" || rc=1
	counts=$(/usr/bin/python3 "$top/tests/tally.py" junit "$xml") && tally "${counts% *}" "${counts#* }"
	return "$rc"
}

pytest_directories() {
	(cd "$top" && find tests -name 'test_*.py' -printf '%h\n' | sort -u)
}

#---------------------------------------------------------------------------

check_part() {
	local suite dir
	case $1 in
	unit) run_part "unit tests" part_unit ;;
	valgrind) run_part "unit tests, valgrind" part_valgrind ;;
	sanitizers) run_part "unit tests, ASan and UBSan" part_sanitizers ;;
	warnings) run_part "build without warnings" part_warnings ;;
	style) run_part "checkpatch, shellcheck, sparse" part_style ;;
	lint) run_part "clang, clang-tidy, cppcheck" part_lint ;;
	kernels)
		for suite in $other_suites; do run_part "module for $suite's kernel" part_kernel "$suite"; done ;;
	release) run_part "make distcheck" part_release ;;
	pytest)
		for dir in $(pytest_directories); do run_part "$dir" run_pytest "$dir"; done ;;
	*) die "check has no part $1; its parts are: $check_parts" ;;
	esac
}

check_all() { # check_all [PART]...
	local part start=$SECONDS
	if [ $# -eq 0 ]; then
		# shellcheck disable=SC2086
		set -- $check_parts
	fi
	for part; do
		case " $check_parts lint " in *" $part "*) ;; *) check_part "$part" ;; esac
	done
	for part; do check_part "$part"; done
	say "the tests took $(elapsed "$start")"
	echo "$total_passed passed, $total_failed failed"
	((total_passed > 0 && total_failed == 0))
}
