#!/usr/bin/env python3
"""CPU seconds of nandle beside other simulators, on the same requests from the same kind of text file.

    benches/peers.py [--mqsim PATH] [--ssdsim PATH] [--runs N] [--workloads common,gc20] [--nandle PATH]

A peer is a program that is there already: MQSim as its `make` leaves it, SSDSim (github.com/huaicheng/ssdsim) by
`cc -O2 -fcommon *.c -o ssd`. Nothing of it is built or changed. Each workload is written once as text of each peer's
format, with its configuration of the same drive beside it; the programs then run in turn, so that whatever else the
machine does falls on all of them. What counts is the user CPU time of the whole program. Printed are the medians, how
many times as long a peer takes as nandle (ratios travel from machine to machine, seconds do not), and how many pages
each read and programmed: whether they did the same work. What is read before it was written the peers find mapped, and
read; nandle answers without flash, unless it writes that first ("reads mapped").
"""

import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = ("common", "gc20")
# Blocks of a plane that MQSim holds free: it needs them to get through `gc20`.
HELD = 10
# Free blocks of a plane below which SSDSim collects, as nandle does on these drives.
HELD_BY_SSDSIM = 2
# SSDSim stops at the 65th page of a block.
PAGES_OF_SSDSIM = 64


def seconds(command: list[str], folder: pathlib.Path, stdin: str = "") -> tuple[float, str]:
    """User CPU seconds of a program, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, errors="replace")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, run.stdout + run.stderr


class Drive:
    """A preset's shape, as peers are told it."""

    def __init__(self, name: str) -> None:
        with open(ROOT / f"drives/{name}.toml", "rb") as file:
            device = tomllib.load(file)
        self.shape, self.timing = device["geometry"], device["timing"]
        # nandle counts the spare in terms of the logical size, peers in terms of the raw one.
        self.spare = 1 - 1 / (1 + device["op_ratio"])


def element(name: str, content: object) -> str:
    if isinstance(content, dict):
        content = "".join(element(key, value) for key, value in content.items())
    return f"<{name}>{content}</{name}>\n"


class MQSim:
    """Without a cache, with its whole map in RAM; greedy, as its own rule for victims aborts."""

    name, trace = "MQSim", "mqsim"

    def __init__(self, program: str) -> None:
        self.program = program

    def prepare(self, drive: Drive, trace: pathlib.Path, folder: pathlib.Path) -> None:
        g, t = drive.shape, drive.timing
        latency = {f"Page_{what}_Latency_{kind}": t[f"{what.lower()}_ns"][0]
                   for what in ("Read", "Program") for kind in ("LSB", "CSB", "MSB")}
        flash = {
            "Flash_Technology": "SLC", "CMD_Suspension_Support": "NONE", **latency,
            "Block_Erase_Latency": t["erase_ns"], "Block_PE_Cycles_Limit": 1_000_000,
            "Suspend_Erase_Time": 0, "Suspend_Program_Time": 0, "Die_No_Per_Chip": g["dies_per_chip"],
            "Plane_No_Per_Die": g["planes_per_die"], "Block_No_Per_Plane": g["blocks_per_plane"],
            "Page_No_Per_Block": g["pages_per_block"], "Page_Capacity": g["page_bytes"],
            "Page_Metadat_Capacity": g["oob_bytes"],
        }
        device = {
            "Seed": 321, "Enabled_Preconditioning": "false", "Memory_Type": "FLASH", "HostInterface_Type": "NVME",
            "IO_Queue_Depth": 65535, "Queue_Fetch_Size": 512, "Caching_Mechanism": "SIMPLE",
            "Data_Cache_Sharing_Mode": "SHARED", "Data_Cache_Capacity": 1 << 20, "Data_Cache_DRAM_Row_Size": 8192,
            "Data_Cache_DRAM_Data_Rate": 800, "Data_Cache_DRAM_Data_Busrt_Size": 4, "Data_Cache_DRAM_tRCD": 13,
            "Data_Cache_DRAM_tCL": 13, "Data_Cache_DRAM_tRP": 13, "Address_Mapping": "PAGE_LEVEL",
            "Ideal_Mapping_Table": "true", "CMT_Capacity": 1 << 21, "CMT_Sharing_Mode": "SHARED",
            "Plane_Allocation_Scheme": "CWDP", "Transaction_Scheduling_Policy": "PRIORITY_OUT_OF_ORDER",
            "Overprovisioning_Ratio": round(drive.spare, 4), "GC_Exec_Threshold": HELD / g["blocks_per_plane"],
            "GC_Block_Selection_Policy": "GREEDY", "Use_Copyback_for_GC": "false", "Preemptible_GC_Enabled": "false",
            "GC_Hard_Threshold": 1 / g["blocks_per_plane"], "Dynamic_Wearleveling_Enabled": "false",
            "Static_Wearleveling_Enabled": "false", "Static_Wearleveling_Threshold": 1_000_000,
            "Preferred_suspend_erase_time_for_read": 0, "Preferred_suspend_erase_time_for_write": 0,
            "Preferred_suspend_write_time_for_read": 0, "Flash_Channel_Count": g["channels"], "Flash_Channel_Width": 1,
            "Channel_Transfer_Rate": int(t["bus_mb_s"]), "Chip_No_Per_Channel": g["chips_per_channel"],
            "Flash_Comm_Protocol": "NVDDR2", "Flash_Parameter_Set": flash,
        }
        host = {"PCIe_Lane_Bandwidth": "1.0", "PCIe_Lane_Count": 4, "SATA_Processing_Delay": 0,
                "Enable_ResponseTime_Logging": "false", "ResponseTime_Logging_Period_Length": 1_000_000}
        ids = {what: ",".join(map(str, range(g[of]))) for what, of in (
            ("Channel_IDs", "channels"), ("Chip_IDs", "chips_per_channel"), ("Die_IDs", "dies_per_chip"),
            ("Plane_IDs", "planes_per_die"))}
        flow = {"Priority_Class": "HIGH", "Device_Level_Data_Caching_Mode": "TURNED_OFF", **ids,
                "Initial_Occupancy_Percentage": 0, "File_Path": trace, "Percentage_To_Be_Executed": 100,
                "Relay_Count": 1, "Time_Unit": "NANOSECOND"}
        head = '<?xml version="1.0" encoding="us-ascii"?>\n'
        (folder / "ssd.xml").write_text(head + element(
            "Execution_Parameter_Set", {"Host_Parameter_Set": host, "Device_Parameter_Set": device}))
        (folder / "workload.xml").write_text(head + element(
            "MQSim_IO_Scenarios", {"IO_Scenario": {"IO_Flow_Parameter_Set_Trace_Based": flow}}))

    def run(self, folder: pathlib.Path) -> float:
        cpu, said = seconds([self.program, "-i", "ssd.xml", "-w", "workload.xml"], folder, "\n\n")
        if not (folder / "workload_scenario_1.xml").exists():
            sys.exit(f"MQSim left no results. It said:\n{said[-2000:]}")
        return cpu

    def served(self, folder: pathlib.Path) -> int:
        result = (folder / "workload_scenario_1.xml").read_text()
        return sum(int(n) for n in re.findall(r"<Request_Count>(\d+)<", result)[:1])

    def pages(self, folder: pathlib.Path) -> tuple[int, int]:
        result = (folder / "workload_scenario_1.xml").read_text()

        def of(what: str) -> int:
            # A command of two planes is about two pages.
            commands = re.findall(rf'Issued_Flash_(Multiplane_)?{what}_CMD="(\d+)"', result)
            return sum(int(n) * (1 + bool(several)) for several, n in commands)

        return of("Read"), of("Program")


class SSDSim:
    """Without a buffer; its blocks have 64 pages, so that a plane of larger ones has more of them."""

    name, trace = "SSDSim", "ssdsim"
    # Flash timing that nandle does not have: as in the file that comes with SSDSim.
    CYCLES = {"t_DBSY": 50, "t_CLS": 12, "t_CLH": 5, "t_CS": 20, "t_CH": 5, "t_WP": 12, "t_ALS": 12, "t_ALH": 5, "t_DS": 12,
              "t_DH": 5, "t_WH": 10, "t_ADL": 70, "t_AR": 10, "t_CLR": 10, "t_RR": 20, "t_RP": 12, "t_WB": 100, "t_REA": 30,
              "t_CEA": 45, "t_RHZ": 100, "t_CHZ": 30, "t_RHOH": 15, "t_RLOH": 5, "t_COH": 15, "t_REH": 10, "t_IR": 0,
              "t_RHW": 100, "t_WHR": 60, "t_RST": 5000}

    def __init__(self, program: str) -> None:
        self.program = program

    def prepare(self, drive: Drive, trace: pathlib.Path, folder: pathlib.Path) -> None:
        g, t = drive.shape, drive.timing
        if g["pages_per_block"] % PAGES_OF_SSDSIM:
            sys.exit(f"SSDSim: blocks of {g['pages_per_block']} pages; expected a multiple of {PAGES_OF_SSDSIM}")
        blocks = g["blocks_per_plane"] * g["pages_per_block"] // PAGES_OF_SSDSIM
        held = HELD_BY_SSDSIM / blocks
        # A byte crosses the bus in so many ns.
        cycle = round(1000 / t["bus_mb_s"])
        chips = {f"chip number[{i}]": g["chips_per_channel"] if i < g["channels"] else 0 for i in range(19)}
        values = {
            "dram capacity": 0, **chips, "channel number": g["channels"],
            "chip number": g["channels"] * g["chips_per_channel"], "die number": g["dies_per_chip"],
            "plane number": g["planes_per_die"], "block number": blocks, "page number": PAGES_OF_SSDSIM,
            "subpage page": g["page_bytes"] // g["sector_bytes"], "page capacity": g["page_bytes"],
            "subpage capacity": g["sector_bytes"], "t_PROG": t["program_ns"][0], "t_BERS": t["erase_ns"],
            "t_R": t["read_ns"][0], "t_WC": cycle, "t_RC": cycle, **self.CYCLES, "erase limit": 1_000_000,
            "address mapping": 1, "wear leveling": 1, "gc": 1, "overprovide": round(drive.spare, 4), "gc threshold": held,
            "buffer management": 0, "scheduling algorithm": 1, "gc hard threshold": held, "allocation": 0,
            "static_allocation": 2, "dynamic_allocation": 0, "advanced command": 0, "advanced command priority": 0,
            "greed CB command": 0, "greed MPW command": 0, "aged": 0, "aged ratio": 0,
        }
        (folder / "page.parameters").write_text("".join(f"{key} = {value};\n" for key, value in values.items()))
        # Its end is a line without an end, long after all others: at a last line that has one SSDSim never stops. It
        # divides by the number of reads, so that there must be one.
        with open(trace, "rb") as given, open(folder / "example.ascii", "wb") as own:
            for line in given:
                own.write(line)
            end = int(line.split()[0])
            own.write(b"%d 0 0 1 1\n%d 0 0 1 0" % (end + 10**9, end + 10**15))

    def run(self, folder: pathlib.Path) -> float:
        # Its return code says nothing: 1 is success.
        cpu, said = seconds([self.program], folder, "example.ascii\n")
        if "the simulation is completed" not in said:
            sys.exit(f"SSDSim did not come to its end. It said:\n{said[-2000:]}")
        return cpu

    def served(self, folder: pathlib.Path) -> int:
        # Its last read is not of the workload.
        return self.counted(folder, "read request") + self.counted(folder, "write request") - 1

    def pages(self, folder: pathlib.Path) -> tuple[int, int]:
        return self.counted(folder, "read"), self.counted(folder, "program")

    @staticmethod
    def counted(folder: pathlib.Path, what: str) -> int:
        result = (folder / "statistic10.dat").read_text(errors="replace")
        return sum(int(n) for n in re.findall(rf"(?m)^{what} count:\s*(\d+)", result)[:1])


def write_first(trace: pathlib.Path, to: pathlib.Path) -> bool:
    """Writes of all that a trace reads, once; whether it reads at all. Either peer's lines: time, device, sector, sectors,
    and 1 for a read."""
    places = {}
    with open(trace) as lines:
        for line in lines:
            _, _, sector, sectors, read = line.split()
            if read == "1":
                places[sector, sectors] = None
    to.write_text("".join(f"{n * 20_000} 0 {sector} {sectors} 0\n" for n, (sector, sectors) in enumerate(places)))
    return bool(places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mqsim", metavar="PATH", help="MQSim's program")
    parser.add_argument("--ssdsim", metavar="PATH", help="SSDSim's program")
    parser.add_argument("--nandle", metavar="PATH", help="nandle's program; built as releases are (release/guided) if not given")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each (3)")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), metavar="NAMES", help="of common, gc20, gc10")
    parser.add_argument("--requests", type=int, metavar="N", help="fewer requests, to try it out")
    options = parser.parse_args()
    peers = [Peer(os.path.abspath(path)) for Peer, path in ((MQSim, options.mqsim), (SSDSim, options.ssdsim)) if path]
    names = options.workloads.split(",")
    if not peers:
        parser.error("no peer: expected --mqsim PATH or --ssdsim PATH")
    if options.runs < 1:
        parser.error(f"--runs {options.runs}: expected at least 1")
    for peer in peers:
        if not os.access(peer.program, os.X_OK):
            parser.error(f"{peer.program}: no such program; expected {peer.name}, built")
    for name in names:
        if not (ROOT / f"drives/{name}.toml").exists() or name not in (*WORKLOADS, "gc10"):
            parser.error(f"--workloads {name}: expected common, gc20 or gc10")
    nandle = options.nandle and os.path.abspath(options.nandle)
    if not nandle:
        # As releases are.
        nandle = subprocess.check_output([ROOT / "release/guided"], text=True).strip()

    print("| workload | program | requests | pages read | programmed | CPU s, median | least to most | nandle is faster by |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in names:
        compare(name, nandle, peers, options)


def compare(name: str, nandle: str, peers: list, options: argparse.Namespace) -> None:
    limit = ["--requests", str(options.requests)] if options.requests else []
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
        folder = pathlib.Path(scratch)
        drive, traces = Drive(name), {}
        for format in dict.fromkeys(peer.trace for peer in peers):
            traces[format] = folder / f"{name}.{format}"
            subprocess.run([nandle, "trace", "generate", name, "-d", name, *limit, "--to", format, "-o", traces[format]],
                           check=True, capture_output=True)
        first = peers[0].trace
        asked = sum(1 for _ in open(traces[first], "rb"))
        text = [nandle, "run", "-d", name, "-w", str(traces[first]), "--format", first, "--time-unit", "ns"]
        generated = [nandle, "run", "-d", name, "-w", name, *limit]
        ours = {"nandle, from the text": text, "nandle, generated": generated}
        mapped = folder / f"mapped.{first}"
        if write_first(traces[first], mapped):
            ours["nandle, reads mapped"] = [*text, "--age-with", str(mapped)]
        folders = [folder / peer.name for peer in peers]
        for peer, own in zip(peers, folders):
            own.mkdir()
            peer.prepare(drive, traces[peer.trace], own)
        taken: dict[str, list[float]] = {}
        pages: dict[str, tuple[int, int]] = {}
        for _ in range(options.runs):
            for what, command in ours.items():
                cpu, said = seconds(command, folder)
                counted = re.search(r"(?m)^ +reads .* ([\d,]+)\n +programs .* ([\d,]+)$", said)
                if not counted:
                    sys.exit(f"nandle did not come to its end. It said:\n{said[-2000:]}")
                # What it generates begins with a fill that it does not count.
                if command is not generated:
                    pages[what] = tuple(int(n.replace(",", "")) for n in counted.groups())
                taken.setdefault(what, []).append(cpu)
            for peer, own in zip(peers, folders):
                taken.setdefault(peer.name, []).append(peer.run(own))
                pages[peer.name] = peer.pages(own)
        # What is generated did without the text that the peers read.
        beside = [statistics.median(taken[what]) for what, command in ours.items() if command is not generated]
        for what, times in taken.items():
            middle = statistics.median(times)
            ratio = "" if what in ours else " or ".join(f"{middle / cpu:.1f}" if cpu else "-" for cpu in beside)
            read, programmed = (f"{n:,}" for n in pages[what]) if what in pages else ("", "")
            print(f"| `{name}` | {what} | {asked:,} | {read} | {programmed} | {middle:.2f} | "
                  f"{min(times):.2f} to {max(times):.2f} | {ratio} |")
        for peer, place in zip(peers, folders):
            served = peer.served(place)
            if served != asked:
                print(f"\n{peer.name} served {served:,} of {asked:,} requests of `{name}`.\n", file=sys.stderr)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
