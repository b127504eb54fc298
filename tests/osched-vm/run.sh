#!/usr/bin/env bash
# Runs the tests of osched with real threads in an emulated machine that has cgroups of version 2 with the cpu controller, as this
# machine may not. Takes one to six minutes. Nothing is installed: QEMU and a kernel are downloaded as Debian's packages and unpacked.
#
#   run.sh [FILTER...]    FILTER: a part of the names of the tests to run
#
# Needs Debian 12 on x86-64. OSCHED_TEST_PROGRAM may name a test program that is built already.
set -euo pipefail

repository="$(cd "$(dirname "$0")/../.." && pwd)"
cache="${ANABRANCH_CACHE:-$HOME/.cache/anabranch}"
machine="$cache/osched-vm-1"
seconds_max=1200

fail() {
  echo "osched-vm: $*" >&2
  exit 1
}

# A folder is complete before it is moved into place.
fetch() {
  [[ -d $machine ]] && return
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "apt-get and dpkg-deb are needed (Debian)"
  mkdir -p "$cache"
  local part kernel package
  local -a packages
  part="$(mktemp -d "$cache/.osched-vm.XXXXXX")"
  mkdir "$part/packages"
  kernel="$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')"
  [[ -n $kernel ]] || fail "apt-get knows no linux-image-cloud-amd64; run 'apt-get update'"
  # What is missing here: libraries that are installed are used as they are.
  mapfile -t packages < <(apt-get install --print-uris -qq --no-install-recommends qemu-system-x86 |
    sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p")
  (cd "$part/packages" && apt-get download -qq "${packages[@]}" busybox-static "$kernel") || fail "the download failed"
  for package in "$part"/packages/*.deb; do
    dpkg-deb -x "$package" "$part"
  done
  rm -r "$part/packages"
  mv -T "$part" "$machine"
}

program() {
  if [[ -n ${OSCHED_TEST_PROGRAM:-} ]]; then
    echo "$OSCHED_TEST_PROGRAM"
    return
  fi
  (cd "$repository" && cargo test --quiet --locked --workspace --test kernel_real --no-run --message-format=json) |
    sed -n 's/.*"name":"kernel_real".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# The file system of the machine: a shell, the test program, and the libraries that it is linked with.
pack() {
  local root="$work/root" library
  mkdir -p "$root"/{bin,dev,proc,sys,tmp,run}
  cp "$machine/bin/busybox" "$root/bin/"
  cp "$1" "$root/test"
  strip --strip-debug "$root/test"
  for library in $(ldd "$1" | grep -o '/[^ ]*'); do
    mkdir -p "$root$(dirname "$library")"
    cp --dereference "$library" "$root$library"
  done
  cp "$repository/tests/osched-vm/init" "$root/init"
  chmod +x "$root/init"
  printf '%s\n' "${@:2}" >"$root/filters"
  (cd "$root" && find . | "$machine/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initramfs.gz"
}

# Emulated in software: /dev/kvm may be there and hang.
boot() {
  local kernel qemu="$machine/usr/bin/qemu-system-x86_64"
  kernel="$(compgen -G "$machine/boot/vmlinuz-*")"
  [[ -x $qemu ]] || qemu="$(command -v qemu-system-x86_64)"
  LD_LIBRARY_PATH="$machine/usr/lib/x86_64-linux-gnu:$machine/lib/x86_64-linux-gnu" timeout "$seconds_max" "$qemu" \
    -L "$machine/usr/share/seabios" -L "$machine/usr/share/qemu" -accel tcg,thread=multi -smp 2 -m 512 \
    -nographic -no-reboot -nic none -kernel "$kernel" -initrd "$work/initramfs.gz" \
    -append 'console=ttyS0 quiet panic=-1 psi=1 random.trust_cpu=on' </dev/null | tee "$work/output"
}

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
fetch
test_program="$(program)"
[[ -x $test_program ]] || fail "the test program was not built; see what cargo test says"
pack "$test_program" "$@"
boot
grep -q 'osched-vm: passed' "$work/output" || fail "the tests did not pass in the emulated machine"
