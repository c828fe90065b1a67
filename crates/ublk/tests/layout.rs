//! Goal: what the kernel is sent and sends is laid out as the kernel's own header says.
//! Method: a C program with `<linux/ublk_cmd.h>` fills the structures field by field and prints them, and the
//! numbers; skipped, aloud, without a C compiler or the header (Debian: linux-libc-dev).
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::process::Command;

use nandle_ublk::uapi::{self, ControlCommand, Descriptor, DeviceInfo, Parameters};

const PROGRAM: &str = r#"
#include <linux/ublk_cmd.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>

static void number(const char *name, unsigned long long n) { printf("%s %llu\n", name, n); }
static void dump(const char *name, const void *p, size_t n) {
    printf("%s ", name);
    for (size_t i = 0; i < n; i++) printf("%02x", ((const unsigned char *)p)[i]);
    printf("\n");
}

int main(void) {
    number("GET_DEV_INFO", _IOR('u', UBLK_CMD_GET_DEV_INFO, struct ublksrv_ctrl_cmd));
    number("ADD_DEV", _IOWR('u', UBLK_CMD_ADD_DEV, struct ublksrv_ctrl_cmd));
    number("DEL_DEV", _IOWR('u', UBLK_CMD_DEL_DEV, struct ublksrv_ctrl_cmd));
    number("START_DEV", _IOWR('u', UBLK_CMD_START_DEV, struct ublksrv_ctrl_cmd));
    number("STOP_DEV", _IOWR('u', UBLK_CMD_STOP_DEV, struct ublksrv_ctrl_cmd));
    number("SET_PARAMS", _IOWR('u', UBLK_CMD_SET_PARAMS, struct ublksrv_ctrl_cmd));
    number("FETCH_REQ", _IOWR('u', UBLK_IO_FETCH_REQ, struct ublksrv_io_cmd));
    number("COMMIT_AND_FETCH_REQ", _IOWR('u', UBLK_IO_COMMIT_AND_FETCH_REQ, struct ublksrv_io_cmd));
#ifdef UBLK_F_USER_COPY
    number("GET_FEATURES", UBLK_U_CMD_GET_FEATURES);
    number("CMD_IOCTL_ENCODE", UBLK_F_CMD_IOCTL_ENCODE);
    number("USER_COPY", UBLK_F_USER_COPY);
    for (unsigned long long q = 0; q < 4; q++)
        for (unsigned long long t = 0; t < 4096; t += 1365) {
            char name[64];
            snprintf(name, sizeof name, "data-%llu-%llu", q, t);
            number(name, UBLKSRV_IO_BUF_OFFSET + (q << UBLK_QID_OFF | t << UBLK_TAG_OFF));
        }
#endif
    number("DEAD", UBLK_S_DEV_DEAD);
    number("LIVE", UBLK_S_DEV_LIVE);
    number("QUIESCED", UBLK_S_DEV_QUIESCED);
    number("READ", UBLK_IO_OP_READ);
    number("WRITE", UBLK_IO_OP_WRITE);
    number("FLUSH", UBLK_IO_OP_FLUSH);
    number("DISCARD", UBLK_IO_OP_DISCARD);
    number("WRITE_ZEROES", UBLK_IO_OP_WRITE_ZEROES);
    number("FUA", UBLK_IO_F_FUA);
    number("NOUNMAP", UBLK_IO_F_NOUNMAP);
    number("ATTR_VOLATILE_CACHE", UBLK_ATTR_VOLATILE_CACHE);
    number("ATTR_FUA", UBLK_ATTR_FUA);
    number("MAX_QUEUE_DEPTH", UBLK_MAX_QUEUE_DEPTH);
    number("CMD_BUF_OFFSET", UBLKSRV_CMD_BUF_OFFSET);
    number("descriptor size", sizeof(struct ublksrv_io_desc));

    struct ublksrv_ctrl_cmd command = { .dev_id = 0x01020304, .queue_id = -1, .len = 0x0506, .addr = 0x0708090a0b0c0d0e };
    /* An array of two, or of one in newer headers. */
    command.data[0] = 0x1112131415161718;
    dump("command", &command, sizeof command);
    struct ublksrv_ctrl_dev_info info = { .nr_hw_queues = 0x0102, .queue_depth = 0x0304, .state = 0x0506,
        .max_io_buf_bytes = 0x0708090a, .dev_id = 0x0b0c0d0e, .ublksrv_pid = -0x0f101112, .flags = 0x131415161718191a };
    dump("info", &info, sizeof info);
    struct ublk_params p = { .len = offsetof(struct ublk_params, discard) + sizeof p.discard,
        .types = UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD,
        .basic = { .attrs = 0x01020304, .logical_bs_shift = 5, .physical_bs_shift = 6, .io_opt_shift = 7, .io_min_shift = 8,
            .max_sectors = 0x090a0b0c, .dev_sectors = 0x0d0e0f1011121314 },
        .discard = { .discard_granularity = 0x15161718, .max_discard_sectors = 0x191a1b1c,
            .max_write_zeroes_sectors = 0x1d1e1f20, .max_discard_segments = 0x2122 } };
    dump("parameters", &p, p.len);
    struct ublksrv_io_desc desc = { .op_flags = 0x01020304, .nr_sectors = 0x05060708, .start_sector = 0x090a0b0c0d0e0f10, .addr = -1 };
    dump("descriptor", &desc, 16);
    struct ublksrv_io_cmd io = { .q_id = 0x0102, .tag = 0x0304, .result = -0x05060708 };
    dump("io", &io, sizeof io);
    return 0;
}
"#;

/// What the program prints, by name; none without a compiler or the header.
fn from_the_header() -> Option<HashMap<String, String>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (source, program) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&source, PROGRAM).expect("written");
    let header = dir.path().join("header.c");
    std::fs::write(&header, "#include <linux/ublk_cmd.h>\n").expect("written");
    let there = Command::new("cc").args(["-w", "-fsyntax-only"]).arg(header).output();
    if !there.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: no C compiler, or no <linux/ublk_cmd.h> (Debian: gcc linux-libc-dev)");
        return None;
    }
    let out = Command::new("cc").arg("-o").arg(&program).arg(&source).output().expect("a compiler");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let out = Command::new(program).output().expect("it runs");
    let text = String::from_utf8(out.stdout).expect("text");
    let line = |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(text.lines().filter_map(line).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn structures_and_numbers_are_the_headers() {
    let Some(header) = from_the_header() else { return };
    let mut numbers: HashMap<String, u64> = [
        ("GET_DEV_INFO", u64::from(uapi::op::GET_DEV_INFO)),
        ("ADD_DEV", u64::from(uapi::op::ADD_DEV)),
        ("DEL_DEV", u64::from(uapi::op::DEL_DEV)),
        ("START_DEV", u64::from(uapi::op::START_DEV)),
        ("STOP_DEV", u64::from(uapi::op::STOP_DEV)),
        ("SET_PARAMS", u64::from(uapi::op::SET_PARAMS)),
        ("FETCH_REQ", u64::from(uapi::op::FETCH_REQ)),
        ("COMMIT_AND_FETCH_REQ", u64::from(uapi::op::COMMIT_AND_FETCH_REQ)),
        ("GET_FEATURES", u64::from(uapi::op::GET_FEATURES)),
        ("CMD_IOCTL_ENCODE", uapi::feature::CMD_IOCTL_ENCODE),
        ("USER_COPY", uapi::feature::USER_COPY),
        ("DEAD", u64::from(uapi::state::DEAD)),
        ("LIVE", u64::from(uapi::state::LIVE)),
        ("QUIESCED", u64::from(uapi::state::QUIESCED)),
        ("READ", u64::from(uapi::io_op::READ)),
        ("WRITE", u64::from(uapi::io_op::WRITE)),
        ("FLUSH", u64::from(uapi::io_op::FLUSH)),
        ("DISCARD", u64::from(uapi::io_op::DISCARD)),
        ("WRITE_ZEROES", u64::from(uapi::io_op::WRITE_ZEROES)),
        ("FUA", u64::from(uapi::io_flag::FUA)),
        ("NOUNMAP", u64::from(uapi::io_flag::NOUNMAP)),
        ("ATTR_VOLATILE_CACHE", u64::from(uapi::attribute::VOLATILE_CACHE)),
        ("ATTR_FUA", u64::from(uapi::attribute::FUA)),
        ("MAX_QUEUE_DEPTH", u64::from(uapi::MAX_QUEUE_DEPTH)),
        ("CMD_BUF_OFFSET", uapi::descriptors(0, 1, 4096).0),
        ("descriptor size", Descriptor::BYTES as u64),
    ]
    .map(|(name, n)| (name.to_owned(), n))
    .into();
    for queue in 0..4 {
        for tag in (0..4096).step_by(1365) {
            numbers.insert(format!("data-{queue}-{tag}"), uapi::data_offset(queue, tag));
        }
    }
    let command = ControlCommand {
        dev_id: 0x0102_0304,
        len: 0x0506,
        addr: 0x0708_090a_0b0c_0d0e,
        data: 0x1112_1314_1516_1718,
    };
    let info = DeviceInfo {
        nr_hw_queues: 0x0102,
        queue_depth: 0x0304,
        state: 0x0506,
        max_io_buf_bytes: 0x0708_090a,
        dev_id: 0x0b0c_0d0e,
        ublksrv_pid: -0x0f10_1112,
        flags: 0x1314_1516_1718_191a,
    };
    assert_eq!(DeviceInfo::of(&info.bytes()), info);
    let parameters = Parameters {
        attributes: 0x0102_0304,
        logical_bs_shift: 5,
        physical_bs_shift: 6,
        io_opt_shift: 7,
        io_min_shift: 8,
        max_sectors: 0x090a_0b0c,
        dev_sectors: 0x0d0e_0f10_1112_1314,
        discard_granularity: 0x1516_1718,
        max_discard_sectors: 0x191a_1b1c,
        max_write_zeroes_sectors: 0x1d1e_1f20,
        max_discard_segments: 0x2122,
    };
    let structures = HashMap::from([
        ("command", hex(&command.bytes())),
        ("info", hex(&info.bytes())),
        ("parameters", hex(&parameters.bytes())),
        ("io", hex(&uapi::io_command(0x0102, 0x0304, -0x0506_0708))),
    ]);
    let (mut compared, mut newer) = (0, 0);
    for (name, value) in &header {
        compared += 1;
        if let Some(ours) = structures.get(&name[..]) {
            assert_eq!(ours, value, "{name}");
        } else if name == "descriptor" {
            let bytes: Vec<u8> = (0..16)
                .map(|n| u8::from_str_radix(&value[2 * n..2 * n + 2], 16).expect("hexadecimal"))
                .collect();
            let ours = Descriptor::of(&bytes.try_into().expect("16 bytes"));
            let expected = Descriptor {
                op_flags: 0x0102_0304,
                nr_sectors: 0x0506_0708,
                start_sector: 0x090a_0b0c_0d0e_0f10,
            };
            assert_eq!(ours, expected);
            assert_eq!(ours.op(), 4);
        } else {
            let ours = numbers.get(name).unwrap_or_else(|| panic!("{name} is not ours"));
            assert_eq!(ours.to_string(), *value, "{name}");
            newer += usize::from(name.starts_with("data"));
        }
    }
    assert!(compared >= 28, "only {compared} were compared");
    if newer == 0 {
        eprintln!(
            "SKIPPED: features and offsets of data, which are not in this header (older than Linux 6.5)"
        );
    }
}
