# Known to every script of a guest. Devices are given as /dev/md0; $DISKS lists the disks, $D0, $D1, ... are each.
md_sys() { echo "/sys/block/$(basename "$(readlink -f "$1")")/md"; }

# Waits until the array does nothing in the background. An array without redundancy has nothing to do.
mdwait() {
  [ -e "$(md_sys "$1")/array_state" ] || { echo "mdwait: $1 is no running array"; return 1; }
  [ -e "$(md_sys "$1")/sync_action" ] || return 0
  while [ "$(cat "$(md_sys "$1")/sync_action")" != idle ]; do sleep 0.05; done
}

# Compares all copies and parity, and prints the count of sectors that differ.
mismatch() {
  mdwait "$1" || return
  echo check > "$(md_sys "$1")/sync_action"
  mdwait "$1"
  cat "$(md_sys "$1")/mismatch_cnt"
}

# Digest of everything that a device or file holds.
digest() { sha256sum < "$1" | cut -d' ' -f1; }
