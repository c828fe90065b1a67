# What vhost.sh runs in the virtual machine.
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
cd /run
fail() { echo "FAILED: $*"; dmesg | grep -iE "virtio|vda|f2fs|ext4" | tail -20; exit 1; }
device=/dev/vda
[ -b $device ] || fail "no block device"
queue=/sys/block/vda/queue
echo "serial $(cat /sys/block/vda/serial); discard $(cat $queue/discard_max_bytes), zeroes $(cat $queue/write_zeroes_max_bytes), block $(cat $queue/logical_block_size), physical $(cat $queue/physical_block_size), $(cat $queue/write_cache), $(ls /sys/block/vda/mq | wc -l) queues"
[ "$(cat $queue/write_cache)" = "write back" ] || fail "no write cache"
[ "$(cat $queue/logical_block_size)" = 4096 ] || fail "block size"
fio --name=v --filename=$device --rw=randwrite --bsrange=4k-256k --size=24m --verify=crc32c --direct=1 --ioengine=libaio --iodepth=16 --minimal > fio.out 2>&1 || fail "fio: $(cat fio.out)"
echo "ok: fio verified 24 MiB"
blkdiscard -f -o 0 -l 64M $device || fail blkdiscard
cmp -n 1048576 $device /dev/zero || fail "discarded blocks are not zero"
blkdiscard -f -z -o 64M -l 8M $device || fail "write zeroes"
for kind in ext4 f2fs; do
  force=-F; options=discard
  [ $kind = f2fs ] && { force=-f; options=discard,mode=lfs; }
  mkfs.$kind -q $force $device > mkfs.out 2>&1 || fail "mkfs.$kind: $(cat mkfs.out)"
  mkdir -p /mnt/$kind
  mount -t $kind -o $options $device /mnt/$kind || fail "mount"
  fio --name=f --directory=/mnt/$kind --rw=randwrite --bs=8k --size=16m --verify=crc32c --fsync=64 --ioengine=psync --minimal > fio.out 2>&1 || fail "fio: $(cat fio.out)"
  sha1sum /mnt/$kind/f.0.0 > sum
  sync; umount /mnt/$kind || fail umount
  mount -t $kind -o $options $device /mnt/$kind && sha1sum -c --quiet sum || fail "contents after a new mount"
  rm /mnt/$kind/f.0.0; sync; umount /mnt/$kind
  if [ $kind = ext4 ]; then fsck.ext4 -fn $device; else fsck.f2fs --dry-run $device; fi > fsck.out 2>&1 || fail "fsck: $(cat fsck.out)"
  echo "ok: $kind made, mounted, verified by fio, checked"
done
echo "ALL GOOD"
