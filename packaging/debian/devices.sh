# shellcheck shell=sh
# The devices of the kernel target on this machine, as `dmsetup status` lists them. Fails if that is not to be had, for then an array may be up.
# A chroot, and a root that dpkg fills from outside, have none: what shows there are the devices of the machine around.
ddraid_status() {
	[ -z "${DPKG_ROOT:-}" ] && [ -d /sys/module/dm_ddraid ] || return 0
	if ischroot; then return 0; fi
	if command -v dmsetup >/dev/null; then
		timeout 30 dmsetup status --noflush --target ddraid && return 0
		echo "$DPKG_MAINTSCRIPT_PACKAGE: dmsetup does not say which arrays are up; see what holds it up, then try again" >&2
		return 1
	fi
	for dm in /sys/block/dm-*/dm; do
		case $(cat "$dm/uuid" 2>/dev/null) in
		DDRAID-*) echo "$(cat "$dm/name"): 0 0 ddraid -" ;;
		esac
	done
}

# Their names: all, or those that are served by ddraidd.
ddraid_devices() { echo "$1" | sed -n 's/: [0-9]* [0-9]* ddraid .*//p' | sort -u; }
ddraid_served() { ddraid_devices "$(echo "$1" | grep -v ' nosync$')"; }

# What is on the devices: mounts, in other mount namespaces too, and devices; one line per name.
ddraid_users() {
	for name in "$@"; do
		# shellcheck disable=SC2046 # three words
		set -- $(dmsetup info -c --noheadings --separator ' ' -o blkdevname,major,minor "$name" 2>/dev/null)
		on=$(cat /proc/[0-9]*/mountinfo 2>/dev/null | awk -v dev="${2:-}:${3:-}" '$3 == dev { print "mounted on " $5 }' | sort -u)
		for holder in /sys/class/block/"${1:-none}"/holders/*; do
			[ -e "$holder" ] || continue
			on="$on
below $(cat "$holder/dm/name" 2>/dev/null || echo "${holder##*/}")"
		done
		on=$(echo "$on" | sed '/^$/d' | paste -sd, | sed 's/,/, /g')
		echo "  $name${on:+: $on}"
	done
}
