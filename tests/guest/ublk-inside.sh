# What ublk.sh runs in the virtual machine; it says what $nandle is.
export PATH=/usr/sbin:/sbin:/usr/bin:/bin HOME=/run
cd /run
fail() { echo "FAILED: $*"; tail -n 20 served; dmesg | grep -iE "ublk|f2fs|ext4" | tail -20; exit 1; }
serve() { # OPTION...: starts it and waits until it says where the device is
  "$nandle" serve "$@" > served 2>&1 &
  server=$!
  for _ in $(seq 300); do grep -q '^ublk' served && break; kill -0 $server 2>/dev/null || fail "no server"; sleep 0.1; done
  device=$(sed -n 's/^ublk *//p' served)
  [ -b "$device" ] || fail "no block device: $device"
}
ends() { wait $server; code=$?; [ $code = "$1" ] || fail "the server ended with $code"; }
files() { # OPTIONS OF MOUNT: fio verifies 8 MiB on the device, which is mounted again and compared
  mount -o "$1" $device /mnt/fs || fail "mount"
  fio --name=f --directory=/mnt/fs --rw=randwrite --bs=8k --size=8m --verify=crc32c --fsync=64 --ioengine=psync --minimal > fio.out 2>&1 || fail "fio: $(cat fio.out)"
  sha1sum /mnt/fs/f.0.0 > sum
  umount /mnt/fs || fail umount
  mount -o "$1" $device /mnt/fs && sha1sum -c --quiet sum || fail "contents after a new mount"
}
loaded() { # waits until somebody has written a hundred times
  local before=$(awk '{print $5}' /sys/block/${device#/dev/}/stat)
  for _ in $(seq 300); do [ $(awk '{print $5}' /sys/block/${device#/dev/}/stat) -lt $((before + 100)) ] || return 0; sleep 0.1; done
  fail "no load"
}
mkdir -p /mnt/fs
uname -r
"$nandle" doctor | grep ublk

"$nandle" schemes > /dev/null || fail "the program does not run here"
serve --device demo --scheme waflash --timing off --ublk --record /run/trace.csv
name=$(basename "$device")
queue=/sys/block/$name/queue
for what in logical_block_size physical_block_size minimum_io_size optimal_io_size discard_granularity discard_max_bytes \
  write_zeroes_max_bytes max_hw_sectors_kb write_cache fua rotational; do echo "$what $(cat $queue/$what)"; done > limits
echo "$(cat limits | tr '\n' ',') $(ls /sys/block/$name/mq | wc -l) queues of $(cat $queue/nr_requests)"
for line in "logical_block_size 4096" "physical_block_size 16384" "minimum_io_size 16384" "discard_max_bytes 2147483648" \
  "write_zeroes_max_bytes 2147483648" "write_cache write back" "fua 1" "rotational 0" "max_hw_sectors_kb 1024"; do grep -qx "$line" limits || fail "not so: $line"; done
[ "$(ls /sys/block/$name/mq | wc -l)" = 2 ] || fail "queues"
fio --name=v --filename=$device --rw=randwrite --bsrange=4k-1m --blockalign=4k --size=24m --verify=crc32c --direct=1 --ioengine=libaio --iodepth=16 --minimal > fio.out 2>&1 || fail "fio: $(cat fio.out)"
fio --name=v --filename=$device --rw=randrw --bs=4k --numjobs=2 --size=4m --offset_increment=4m --offset=64m --verify=crc32c --direct=1 --ioengine=io_uring --iodepth=32 --minimal > fio.out 2>&1 || fail "fio: $(cat fio.out)"
echo "ok: fio verified 24 MiB, and 8 MiB by two at once"
yes nandle | head -c 1048576 > ones
dd if=ones of=$device bs=64k oflag=direct,dsync conv=notrunc 2> /dev/null && cmp -n 1048576 ones $device || fail "durable writes"
blkdiscard -f -o 0 -l 64M $device || fail blkdiscard
cmp -n 1048576 $device /dev/zero || fail "discarded blocks are not zero"
dd if=ones of=$device bs=64k seek=1024 oflag=direct conv=notrunc 2> /dev/null
blkdiscard -f -z -o 64M -l 8M $device || fail "write zeroes"
cmp -n 1048576 -i 64M:0 $device /dev/zero || fail "zeroed blocks are not zero"
blkdiscard -f $device || fail "blkdiscard of all"
echo "ok: durable writes, discard, write zeroes"
for kind in ext4 f2fs; do
  force=-F; options=discard
  [ $kind = f2fs ] && { force=-f; options=discard,mode=lfs; }
  mkfs.$kind -q $force $device > mkfs.out 2>&1 || fail "mkfs.$kind: $(cat mkfs.out)"
  files $options
  rm /mnt/fs/f.0.0; sync; fstrim /mnt/fs || fail fstrim; umount /mnt/fs
  if [ $kind = ext4 ]; then fsck.ext4 -fn $device; else fsck.f2fs --dry-run $device; fi > fsck.out 2>&1 || fail "fsck: $(cat fsck.out)"
  echo "ok: $kind made, mounted, verified by fio, trimmed, checked"
done
# Somebody else's number, and one that is none.
"$nandle" serve --device demo --ublk=${name#ublkb} > second 2>&1; [ $? = 2 ] || fail "a number that is taken: $(cat second)"
cat second
# Asked to end under load, it answers what came and goes.
fio --name=l --filename=$device --rw=randrw --bs=16k --size=64m --direct=1 --ioengine=io_uring --iodepth=16 --allow_file_create=0 --time_based --runtime=60 --minimal > fio.out 2>&1 &
load=$!
loaded
kill -TERM $server; ends 0
wait $load && fail "fio did not notice"
[ ! -e "$device" ] && [ ! -e /dev/ublkc${name#ublkb} ] || fail "the device is still there"
tail -n 2 served
awk -F, 'NR > 1 {seen[$2]++; durable += $2 == "write" && $7 == 1} END {for (op in seen) print op, seen[op]; print "durable", durable}' trace.csv > ops
tr '\n' ' ' < ops; echo
for op in read write trim flush durable; do grep -qE "^$op [1-9]" ops || fail "no $op was seen: $(cat ops; head -n 3 trace.csv)"; done
echo "ok: removed under load"

# A file system that is mounted when the server is asked to end is written first.
small="--device demo --set geometry.blocks_per_plane=64 --scheme page --image /run/flash.img"
serve $small --timing off --ublk=3
[ "$device" = /dev/ublkb3 ] || fail "asked for 3, got $device"
mkfs.ext4 -q -F $device > mkfs.out 2>&1 || fail "mkfs: $(cat mkfs.out)"
mount $device /mnt/fs || fail mount
yes unwritten | head -c 3000000 > /mnt/fs/late
kill -TERM $server; ends 0
grep -i "in use" served
umount /mnt/fs
serve --image /run/flash.img --timing off --ublk=3
mount $device /mnt/fs || fail "mount after SIGTERM"
yes unwritten | head -c 3000000 | cmp - /mnt/fs/late || fail "what was not synced when SIGTERM came is lost"
echo "ok: SIGTERM under a mounted file system"

# kill -9 under load: what was synced is there, the same number can be had again.
yes synced | head -c 3000000 > /mnt/fs/kept; sync /mnt/fs/kept
fio --name=f --directory=/mnt/fs --rw=randwrite --bs=8k --size=16m --time_based --runtime=60 --fsync=8 --ioengine=psync --minimal > fio.out 2>&1 &
load=$!
loaded
kill -9 $server; wait $server 2> /dev/null
wait $load && fail "fio did not notice"
"$nandle" serve --image /run/flash.img --ublk=3 > second 2>&1; [ $? = 2 ] || fail "a dead device that is mounted: $(cat second)"
cat second
umount /mnt/fs || fail "umount after kill -9"
serve --image /run/flash.img --timing real --ublk=3
[ "$device" = /dev/ublkb3 ] || fail "asked for 3 again, got $device"
fsck.ext4 -fp $device > fsck.out 2>&1; [ $? -le 1 ] || fail "fsck after kill -9: $(cat fsck.out)"
files discard
yes synced | head -c 3000000 | cmp - /mnt/fs/kept || fail "what was synced before kill -9 is lost"
umount /mnt/fs
kill -INT $server; ends 0
"$nandle" fsck /run/flash.img | tail -n 3 || fail "nandle fsck"
echo "ok: kill -9, and the same number again, in real time"
echo "ALL GOOD"
