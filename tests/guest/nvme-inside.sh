# What nvme.sh runs in the virtual machine; connect1 and connect2 are the commands that nandle printed.
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
cd /run
fail() { echo "FAILED: $*"; dmesg | grep -iE "nvme|f2fs|ext4" | tail -20; exit 1; }
expect() { # WHAT COMMAND...: its output must contain WHAT
  local what=$1 said
  shift
  said=$("$@" 2>&1) || fail "$*: $said"
  case $said in *"$what"*) echo "ok: $* -> $what" ;; *) fail "$*: expected $what in: $said" ;; esac
}
host="--hostnqn=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 --hostid=11111111-2222-3333-4444-555555555555"
address=$(echo "$connect1" | sed 's/.*\(-a .* -s [0-9]*\) .*/\1/')
nqn=$(echo "$connect1" | sed 's/.*-n //')
echo "== discover"
expect "subnqn:  $nqn" nvme discover -t tcp $address $host
echo "== connect"
$connect1 $host --nr-io-queues=1 || fail "$connect1"
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/nvme0n1 ] && break; sleep 0.5; done
[ -b /dev/nvme0n1 ] || fail "no block device"
nvme list
expect "nandle demo" nvme id-ctrl /dev/nvme0
expect "lbads:12" nvme id-ns /dev/nvme0n1
expect "available_spare" nvme smart-log /dev/nvme0
expect "afi" nvme fw-log /dev/nvme0
expect "log-id:5" nvme get-log /dev/nvme0 --log-id=5 --log-len=4096
queue=/sys/block/nvme0n1/queue
echo "queue: discard $(cat $queue/discard_max_bytes), zeroes $(cat $queue/write_zeroes_max_bytes), block $(cat $queue/logical_block_size), io_min $(cat $queue/minimum_io_size), $(cat $queue/write_cache), max $(cat $queue/max_sectors_kb) KiB"
[ "$(cat $queue/write_cache)" = "write back" ] || fail "no write cache"
echo "== fio"
fio --name=v --filename=/dev/nvme0n1 --rw=randwrite --bsrange=4k-256k --size=24m --verify=crc32c --direct=1 --ioengine=libaio --iodepth=8 --minimal > fio.out 2>&1 || fail "fio: $(cat fio.out)"
echo "ok: fio verified 24 MiB"
blkdiscard -f -o 0 -l 64M /dev/nvme0n1 || fail blkdiscard
cmp -n 1048576 /dev/nvme0n1 /dev/zero || fail "discarded blocks are not zero"
blkdiscard -f -z -o 64M -l 8M /dev/nvme0n1 || fail "write zeroes"
nvme flush /dev/nvme0n1 -n 1 || fail flush
echo "== FlashAlloc by passthrough"
# One range: 256 blocks from block 4096.
printf '\0\0\0\0\0\1\0\0\0\20\0\0\0\0\0\0' > range
nvme io-passthru /dev/nvme0n1 -o 0xC1 -n 1 -l 16 -w -i range --cdw10=0 || fail "FlashAlloc"
nvme io-passthru /dev/nvme0n1 -o 0xC1 -n 1 -l 16 -w -i range --cdw10=0 && fail "an overlap was not refused"
nvme io-passthru /dev/nvme0n1 -o 0xC2 -n 1 -l 64 -r -b --cdw10=15 > live || fail "query"
[ "$(od -An -tu4 -N4 live | tr -d ' ')" = 1 ] || fail "instances: $(od -An -tx1 live)"
nvme io-passthru /dev/nvme0n1 -o 0x82 -n 1 --cdw10=8192 --cdw14=256 || fail "FlashAlloc, the paper's opcode"
nvme io-passthru /dev/nvme0n1 -o 0xC2 -n 1 -l 128 -r -b --cdw10=31 > live || fail "query"
[ "$(od -An -tu4 -N4 live | tr -d ' ')" = 2 ] || fail "instances: $(od -An -tx1 live)"
echo "ok: two objects live"
for kind in ext4 f2fs; do
  echo "== $kind"
  force=-F; options=discard
  [ $kind = f2fs ] && { force=-f; options=discard,mode=lfs; }
  mkfs.$kind -q $force /dev/nvme0n1 > mkfs.out 2>&1 || fail "mkfs.$kind: $(cat mkfs.out)"
  mkdir -p /mnt/$kind
  mount -t $kind -o $options /dev/nvme0n1 /mnt/$kind || fail "mount"
  fio --name=f --directory=/mnt/$kind --rw=randwrite --bs=8k --size=24m --verify=crc32c --fsync=64 --ioengine=psync --minimal > fio.out 2>&1 || fail "fio: $(cat fio.out)"
  sha1sum /mnt/$kind/f.0.0 > sum
  sync; umount /mnt/$kind || fail umount
  mount -t $kind -o $options /dev/nvme0n1 /mnt/$kind && sha1sum -c --quiet sum || fail "contents after a new mount"
  rm /mnt/$kind/f.0.0; sync; umount /mnt/$kind
  if [ $kind = ext4 ]; then fsck.ext4 -fn /dev/nvme0n1; else fsck.f2fs --dry-run /dev/nvme0n1; fi > fsck.out 2>&1 || fail "fsck: $(cat fsck.out)"
  echo "ok: $kind made, mounted, verified by fio, checked"
done
nvme smart-log /dev/nvme0 | grep -iE 'data units|host_(read|write)'
nvme get-log /dev/nvme0 --log-id=0xc0 --log-len=512 -b > ocp || fail "OCP log"
echo "physical media units written: $(od -An -tu8 -N8 ocp | tr -d ' ') bytes, unaligned I/O: $(od -An -tu8 -j136 -N8 ocp | tr -d ' ')"
nvme disconnect -n "$nqn" || fail disconnect
echo "== digests, FDP"
$connect2 $host --nr-io-queues=1 --hdr-digest --data-digest --keep-alive-tmo=5 || fail "$connect2"
for _ in 1 2 3 4 5 6 7 8 9 10; do ls /dev/nvme*n1 >/dev/null 2>&1 && break; sleep 0.5; done
device=$(ls /dev/nvme*n1 | head -1)
fio --name=d --filename=$device --rw=randwrite --bs=64k --size=8m --verify=crc32c --direct=1 --ioengine=libaio --iodepth=4 --minimal > fio.out 2>&1 || fail "fio with digests: $(cat fio.out)"
echo "ok: fio verified 8 MiB with digests"
controller=${device%n1}
if nvme fdp help >/dev/null 2>&1 || nvme fdp 2>&1 | grep -q stats; then
  nvme fdp configs $controller -e 1 || fail "fdp configs"
  nvme fdp stats $controller -e 1 || fail "fdp stats"
  nvme fdp status $device || fail "fdp status"
else
  nvme get-log $controller --log-id=0x22 --log-len=64 --lsi=1 -b > stats || fail "FDP statistics"
  echo "fdp statistics: host $(od -An -tu8 -N8 stats | tr -d ' '), media $(od -An -tu8 -j16 -N8 stats | tr -d ' ') bytes"
  nvme io-passthru $device -o 0x12 -n 1 -l 144 -r -b --cdw10=1 --cdw11=35 > status || fail "reclaim unit handle status"
  [ "$(od -An -tu2 -j14 -N2 status | tr -d ' ')" = 4 ] || fail "handles: $(od -An -tx1 status)"
  echo "ok: four reclaim unit handles"
fi
sleep 12
fio --name=d --filename=$device --rw=read --bs=64k --size=1m --direct=1 --minimal > fio.out 2>&1 || fail "after 12 s of silence"
echo "ok: kept alive"
nvme disconnect-all
echo "ALL GOOD"
