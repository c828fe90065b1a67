#!/usr/bin/env bash
# Linux's own NVMe/TCP initiator against `nandle serve --nvme-tcp`: Debian's kernel in a virtual machine (TCG, so
# without any right or module of this machine), whose root is this machine's, read-only. Nothing is installed.
#
#   nvme.sh path/to/nandle        exit 0: all was as expected, 77: cannot be run here (it says why), 1: failed
set -euo pipefail
nandle=$(realpath "${1:?usage: nvme.sh path/to/nandle}")
here=$(cd "$(dirname "$0")" && pwd)
skip() { echo "SKIPPED: $*" >&2; exit 77; }
export PATH="$PATH:/usr/sbin:/sbin"
for program in qemu-system-x86_64 nvme mkfs.ext4 mkfs.f2fs fio fsck.ext4 fsck.f2fs blkdiscard cpio dpkg-deb modprobe depmod xz; do
  command -v $program >/dev/null || skip "$program is not installed (Debian: qemu-system-x86 nvme-cli f2fs-tools fio cpio kmod xz-utils)"
done
work=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
server=

# The kernel: whatever Debian's metapackage names today.
cache=${NANDLE_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nandle-guest}
mkdir -p "$cache"
package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/{print $2; exit}') || true
[ -n "$package" ] || skip "apt-cache knows no linux-image-amd64 (Debian, with its package lists)"
kernel=${package#linux-image-}
if [ ! -e "$cache/$package/boot/vmlinuz-$kernel" ]; then
  (cd "$work" && apt-get download -q "$package" busybox-static >&2) || skip "$package cannot be downloaded"
  for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$cache/$package"; done
  depmod -b "$cache/$package" "$kernel"
fi
kernel_root=$cache/$package

# An initramfs: busybox, the modules in the order in which they are loaded, and a script.
modules="virtio_pci virtio_net 9pnet_virtio 9p nvme_tcp ext4 f2fs crc32c_generic libcrc32c"
tree=$work/tree
mkdir -p "$tree"/{bin,proc,sys,dev,host,modules}
cp "$kernel_root/bin/busybox" "$tree/bin/busybox"
for applet in sh mount insmod cat echo ip poweroff chroot sync; do ln -s busybox "$tree/bin/$applet"; done
for module in $modules; do
  modprobe -d "$kernel_root" -S "$kernel" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" {print $2}'
done | awk '!seen[$0]++' > "$work/order"
while read -r file; do
  name=$(basename "$file" .xz)
  case $file in *.xz) xz -dc "$file" > "$tree/modules/$name" ;; *) cp "$file" "$tree/modules/$name" ;; esac
  echo "$name" >> "$tree/modules/order"
done < "$work/order"
cat > "$tree/init" <<'INIT'
#!/bin/sh
mount -t devtmpfs dev /dev; exec > /dev/ttyS0 2>&1; mount -t proc proc /proc; mount -t sysfs sys /sys
while read -r m; do insmod /modules/$m 2>/dev/null; done < /modules/order
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,ro hostroot /host || poweroff -f
for fs in "devtmpfs dev" "proc proc" "sysfs sys" "tmpfs run" "tmpfs mnt" "tmpfs tmp"; do mount -t $fs /host/${fs#* }; done
cat /inside.sh > /host/run/inside.sh
chroot /host /bin/bash /run/inside.sh
sync; poweroff -f
INIT
chmod +x "$tree/init"

# The drive knows objects, and what a drive with FDP says is asked of a second one.
serve() {
  "$nandle" serve --device demo --timing off --nvme-tcp :0 "${@:2}" > "$work/$1" 2>&1 &
  server="$server $!"
  for _ in $(seq 100); do grep -q '^nvme' "$work/$1" && break; sleep 0.1; done
  grep '^nvme' "$work/$1" | sed 's/^nvme *//; s/127.0.0.1/10.0.2.2/'
}
serve objects --scheme flashalloc --set op_ratio=0.5 --seed 2 > "$work/connect1"
serve handles --scheme fdp --set streams.count=4 --set op_ratio=0.9 --seed 3 > "$work/connect2"
[ -s "$work/connect1" ] && [ -s "$work/connect2" ] || { cat "$work/objects" "$work/handles" >&2; exit 1; }
{
  echo "connect1='$(cat "$work/connect1")'"
  echo "connect2='$(cat "$work/connect2")'"
  cat "$here/nvme-inside.sh"
} > "$tree/inside.sh"
(cd "$tree" && find . | cpio -o -H newc --quiet) > "$work/initrd"

timeout "${NANDLE_GUEST_SECONDS:-600}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 1024 -smp 1 -M q35 \
  -nodefaults -no-user-config -display none -serial stdio -no-reboot \
  -kernel "$kernel_root/boot/vmlinuz-$kernel" -initrd "$work/initrd" \
  -append "console=ttyS0 panic=-1 loglevel=3 mitigations=off" \
  -netdev user,id=n -device virtio-net-pci,netdev=n,romfile= \
  -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
  -device virtio-9p-pci,fsdev=root,mount_tag=hostroot < /dev/null 2>&1 | tr -d '\r' | tee "$work/said"
grep -q '^ALL GOOD' "$work/said"
