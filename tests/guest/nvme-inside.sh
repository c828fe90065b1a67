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
echo "== FDP: writes that name their placement, past the block layer"
# Blocks that are left in the reclaim unit of each handle.
left() {
  nvme io-passthru $device -o 0x12 -n 1 -l 144 -r -b --cdw10=1 --cdw11=35 > status || fail "reclaim unit handle status"
  for handle in 0 1 2 3; do od -An -tu8 -j$((16 + 32 * handle + 8)) -N8 status; done | tr -d ' ' | tr '\n' ' '
}
# Handles other than those named have as much left as before, those named less.
took() { # BEFORE AFTER HANDLES
  local handle=0 after
  for after in $2; do
    set -- "${1#* }" "$2" "$3" "${1%% *}"
    case " $3 " in
      *" $handle "*) [ "$after" -lt "$4" ] || fail "handle $handle took nothing: $4 blocks left, then $after" ;;
      *) [ "$after" = "$4" ] || fail "handle $handle, which nobody named: $4 blocks left, then $after" ;;
    esac
    handle=$((handle + 1))
  done
}
head -c 65536 /dev/urandom > data
# What is buffered of other writes is on flash before anything is compared.
nvme flush $device -n 1 || fail flush
before=$(left)
# Data placement is directive type 2; the handle stands in the upper half of the directive's word.
nvme io-passthru $device -o 1 -n 1 -l 65536 -w -i data --cdw10=8192 --cdw12=$((2 << 20 | 15)) --cdw13=$((2 << 16)) > io.out 2>&1 || fail "a write to handle 2: $(cat io.out)"
nvme io-passthru $device -o 1 -n 1 -l 65536 -w -i data --cdw10=16384 --cdw12=$((2 << 20 | 15)) --cdw13=$((1 << 16)) > io.out 2>&1 || fail "a write to handle 1: $(cat io.out)"
nvme flush $device -n 1 || fail flush
after=$(left)
took "$before" "$after" "1 2"
nvme io-passthru $device -o 2 -n 1 -l 65536 -r -b --cdw10=8192 --cdw12=15 > back || fail "a read past the block layer"
cmp data back || fail "what was written to handle 2 is not what is read"
echo "ok: handles 1 and 2 took a write each that named them: left $before-> $after"
ring=/dev/ng${device#/dev/nvme}
passes="--name=p --filename=$ring --ioengine=io_uring_cmd --cmd_type=nvme --bs=64k --size=8m --iodepth=8 --minimal"
if $fio --cmdhelp=fdp 2>/dev/null | grep -q placement; then
  before=$(left)
  $fio $passes --rw=randwrite --verify=crc32c --fdp=1 --fdp_pli=1,3 > fio.out 2>&1 || fail "fio with placement identifiers: $(cat fio.out)"
  nvme flush $device -n 1 || fail flush
  after=$(left)
  took "$before" "$after" "1 3"
  echo "ok: fio verified 8 MiB by io_uring passthrough on handles 1 and 3: left $before-> $after"
else
  $fio $passes --rw=randwrite --verify=crc32c > fio.out 2>&1 || fail "fio by passthrough: $(cat fio.out)"
  echo "ok: fio verified 8 MiB by io_uring passthrough (without placement: this fio knows no fdp, 3.35 does)"
fi
sleep 12
fio --name=d --filename=$device --rw=read --bs=64k --size=1m --direct=1 --minimal > fio.out 2>&1 || fail "after 12 s of silence"
echo "ok: kept alive"
nvme disconnect-all
echo "ALL GOOD"
