// Package fio is the tool fio: reads and writes of one file. Pitfalls:
//
//   - The default engine depends on the system. Here the default is psync, which
//     exists everywhere; libaio and io_uring exist only on Linux.
//   - With end_fsync the time of the last fsync is inside the runtime, and the
//     section "sync" has N = 0: throughput includes it, and there is no latency
//     to report. A latency with N = 0 is not zero seconds.
//   - Without O_DIRECT fio reads and writes the page cache: a file that fits in
//     memory measures memory. The default, direct=auto, writes one block with
//     O_DIRECT to find out whether the file system supports it. ZFS before 2.3
//     and tmpfs accept and ignore the flag, so auto does not set it there.
//   - Standard output mixes notes and JSON, so the JSON goes to a file.
//   - A queue depth above 1 does nothing with a synchronous engine.
package fio

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
)

// New returns the tool.
func New() tool.Tool { return fio{tool.VersionBy(`^fio-(\d+\.\d+\S*)`)} }

type fio struct{ tool.Versioned }

// quantiles are requested and reported.
var quantiles = []struct{ name, percent string }{
	{"p50", "50"}, {"p99", "99"}, {"p999", "99.9"},
}

func (fio) Doc() tool.Doc {
	d := tool.Doc{
		Name: "fio", Program: "fio", VersionArgs: []string{"--version"},
		Tried: []string{"3.25", "3.33", "3.39"}, Least: "3.0",
		Summary:  "fio as the platform ships it: random and sequential reads and writes of one file in a volume",
		Packages: tool.Everywhere("fio"),
		Metrics: []sample.Metric{
			sample.Throughput("op/s", "reads and writes per second, the final fsync included"),
			sample.HigherRatio("bandwidth", "B/s", "bytes read and written per second"),
		},
		Params: []param.Spec{
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume"},
			{Name: "pattern", Kind: param.Text, Default: "randrw", Enum: []string{"read", "write", "rw", "randread",
				"randwrite", "randrw"}, Doc: "order and kind of operations, as in fio's option rw"},
			{Name: "read-share", Kind: param.Int, Default: "50", Min: 0, Max: 100,
				Doc: "percentage of reads in a mixed pattern"},
			{Name: "block", Kind: param.Size, Default: "4KiB", Min: 512, Max: 64 << 20, Doc: "size of an operation"},
			{Name: "size", Kind: param.Size, Default: "64MiB", Min: 4096, Max: 16 << 40,
				Doc: "size of the file, which fio writes once before the first trial"},
			{Name: "iodepth", Kind: param.Int, Default: "1", Min: 1, Max: 4096,
				Doc: "number of operations in progress at a time; more than 1 requires an asynchronous engine"},
			{Name: "engine", Kind: param.Text, Default: "psync", Enum: []string{"psync", "sync", "mmap", "posixaio", "libaio",
				"io_uring"}, Doc: "fio's ioengine; libaio and io_uring exist only on Linux"},
			{Name: "direct", Kind: param.Text, Default: directAuto, Enum: []string{directAuto, "true", "false"},
				Earlier: "false", Doc: "bypass the page cache (O_DIRECT); auto does so if the file system supports " +
					"O_DIRECT, and the fact program.fio.direct shows the result; ZFS before 2.3 ignores the flag"},
			{Name: "invalidate", Kind: param.Bool, Default: "true", Doc: "drop the file from the page cache before " +
				"the test, if the system permits this; with false, reads may come from memory"},
			{Name: "end-fsync", Kind: param.Bool, Default: "true", Doc: "fsync at the end, inside the measured time"},
			{Name: "fsync", Kind: param.Int, Default: "0", Min: 0, Max: 1e9, Doc: "fsync after this number of " +
				"writes; 0 means never"},
			{Name: "align", Kind: param.Size, Min: 1, Max: 1 << 20, Doc: "alignment of fio's buffer in memory: a " +
				"number of bytes, a power of two. When not set, the buffer starts 16 bytes after the start of a " +
				"page. Some CPUs copy to such an address several times slower than to a multiple of 64 bytes, which " +
				"slows reads of data that are in memory"},
			{Name: "seed", Kind: param.Int, Default: "1", Min: 1, Max: 1 << 53, Doc: "seed of the random offsets"},
			{Name: "time", Kind: param.Duration, Default: "1s", Doc: "length of the test"},
		},
		Volume: "volume", FileSize: "size", State: "carried",
		Cache:  "fio drops it if the system permits this, unless invalidate=false",
		Time:   func(p param.Values) time.Duration { return p.Duration("time") + 700*time.Millisecond },
		Parser: 3,
		Source: []string{"fio(1), https://fio.readthedocs.io"},
	}
	for _, side := range []string{"read", "write", "sync"} {
		for _, q := range quantiles {
			d.Metrics = append(d.Metrics, sample.LowerRatio(side+"-latency-"+q.name, "s",
				q.percent+"th percentile of the "+side+" latency, closed loop; absent without "+side+" operations"))
		}
	}
	return d
}

// directAuto is the value of the parameter direct that stands for "true, if it works".
const directAuto = "auto"

// sector is the alignment in memory that O_DIRECT needs, in bytes.
const sector = 512

// bypassesCache reports whether fio bypasses the page cache at a place, and why.
func bypassesCache(p param.Values, at tool.Place) (on bool, why string) {
	fs := cmp.Or(at.FileSystem, "an unknown file system")
	switch {
	case p.Text("direct") != directAuto:
		return p.Bool("direct"), "set by the lab file"
	case p.Text("engine") == "mmap":
		return false, "the engine mmap reads and writes the page cache"
	case ignores(fs):
		return false, fs + " ignores O_DIRECT"
	case p.Bytes("align")%sector != 0:
		return false, "O_DIRECT needs an align that is a multiple of 512B"
	case !at.Probed:
		return false, "a block of " + p.Text("block") + " cannot be written with O_DIRECT to " + fs
	}
	return true, fs + " supports O_DIRECT"
}

// ignores reports whether a file system accepts O_DIRECT without its effect: it
// lies in memory, or it is a ZFS that may be older than 2.3.
func ignores(fs string) bool {
	return slices.Contains([]string{"tmpfs", "ramfs", "zfs", "fuse.zfs-fuse"}, fs)
}

// Probe writes one block with O_DIRECT.
func (fio) Probe(p param.Values, at tool.Place) []string {
	if p.Text("direct") != directAuto {
		return nil
	}
	return []string{"sh", "-c", `dd if=/dev/zero "of=$1" "bs=$2" count=1 oflag=direct; code=$?; rm -f "$1"; exit $code`,
		"sh", at.Data + "/direct.probe", bytesText(p, "block")}
}

// asynchronous are the engines that support a queue depth.
var asynchronous = []string{"posixaio", "libaio", "io_uring"}

// checkParams refuses parameters that contradict each other.
func checkParams(p param.Values) error {
	switch {
	case p.Int("iodepth") > 1 && !slices.Contains(asynchronous, p.Text("engine")):
		return fault.WithFix(fault.New(fault.Invalid, "iodepth: %s requires an asynchronous engine, and %s is synchronous",
			p.Text("iodepth"), p.Text("engine")),
			"set engine to libaio (Linux) or posixaio")
	case p.Bool("direct") && p.Text("engine") == "mmap":
		return fault.WithFix(fault.New(fault.Invalid, "direct: the engine mmap reads and writes the page cache"),
			"set direct to auto, or engine to psync")
	case p.Bytes("size") < p.Bytes("block"):
		return fault.New(fault.Invalid, "size: a file of %s is smaller than a block of %s", p.Text("size"), p.Text("block"))
	case p.Text("align") != "" && p.Bytes("align")&(p.Bytes("align")-1) != 0:
		return fault.New(fault.Invalid, "align must be a power of two (got %s)", p.Text("align"))
	case p.Duration("time") < time.Millisecond:
		return fault.New(fault.Invalid, "time must be at least 1ms (got %s)", p.Text("time"))
	}
	return nil
}

// dataFile is the file that is read and written. An unescaped colon would separate
// two names.
func dataFile(at tool.Place) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(at.Data + "/fio.dat")
}

// Prepare writes the whole file, so that no trial reads holes.
func (fio) Prepare(p param.Values, at tool.Place) ([]tool.Command, error) {
	if err := checkParams(p); err != nil {
		return nil, err
	}
	return []tool.Command{{Argv: []string{"fio", "--name=fill", "--filename=" + dataFile(at), "--rw=write",
		"--bs=1048576", "--size=" + bytesText(p, "size"), "--ioengine=psync", "--end_fsync=1", "--refill_buffers=1",
		"--randseed=" + p.Text("seed"), "--output-format=terse"}}}, nil
}

func bytesText(p param.Values, name string) string { return strconv.FormatInt(p.Bytes(name), 10) }

// output is the file with the JSON.
const output = "output.json"

func (fio) Command(p param.Values, at tool.Place) (tool.Command, error) {
	if err := checkParams(p); err != nil {
		return tool.Command{}, err
	}
	on, _ := bypassesCache(p, at)
	argv := []string{"fio", "--name=bakeoff", "--filename=" + dataFile(at),
		"--rw=" + p.Text("pattern"), "--rwmixread=" + p.Text("read-share"),
		"--bs=" + bytesText(p, "block"), "--size=" + bytesText(p, "size"),
		"--ioengine=" + p.Text("engine"), "--iodepth=" + p.Text("iodepth"),
		"--direct=" + flagText(on), "--invalidate=" + flagText(p.Bool("invalidate")), "--end_fsync=" +
			flagText(p.Bool("end-fsync")),
		"--fsync=" + p.Text("fsync"),
		"--randseed=" + p.Text("seed"), "--norandommap=1",
		"--time_based=1", fmt.Sprintf("--runtime=%dms", p.Duration("time").Milliseconds()),
		"--percentile_list=" + percentiles(), "--output-format=json+", "--output=" + output}
	if p.Text("align") != "" {
		argv = append(argv, "--iomem_align="+bytesText(p, "align"))
	}
	return tool.Command{Argv: argv, Keep: map[string]string{output: output}}, nil
}

func percentiles() string {
	var all []string
	for _, q := range quantiles {
		all = append(all, q.percent)
	}
	return strings.Join(all, ":")
}

func flagText(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// Notes says whether fio bypassed the page cache, and what the results therefore
// describe.
func (fio) Notes(p param.Values, at tool.Place) map[string]string {
	on, why := bypassesCache(p, at)
	notes := map[string]string{"direct": fmt.Sprintf("%v: %s", on, why)}
	openZFS, cache := at.FileSystem == "zfs", at.Properties["primarycache"]
	uncached := openZFS && (cache == "metadata" || cache == "none")
	switch size, memory := p.Bytes("size"), at.MemoryBytes; {
	case !on && uncached && at.HostCaches:
		notes[tool.Caveat] = "direct=false, and the host caches the file of the pool: this may be the host's memory"
	case !on && uncached: // ZFS keeps no data in memory, and no other cache does
	case on && ignores(at.FileSystem):
		notes[tool.Caveat] = "direct=true, but " + at.FileSystem + " may ignore it: this may be memory"
	case on && at.HostCaches:
		notes[tool.Caveat] = "direct=true, but the host caches the volume: this may be the host's memory"
	case !on && (memory > 0 && size <= memory || at.FileSystem == "tmpfs"):
		notes[tool.Caveat] = fmt.Sprintf("direct=false, fits in memory: a file of %s in %s of memory, not storage",
			unit.Bytes(size), unit.Bytes(memory))
	case !on && openZFS:
		notes[tool.Caveat] = fmt.Sprintf("direct=false: the ARC, ZFS's cache in the memory of the host, may hold the "+
			"file of %s", unit.Bytes(size))
	case !on && memory == 0:
		notes[tool.Caveat] = fmt.Sprintf("direct=false: the page cache may hold the file of %s", unit.Bytes(size))
	}
	if notes[tool.Caveat] != "" && !on {
		fix := "use a volume whose file system supports O_DIRECT, or set size to more than the memory"
		if openZFS {
			fix += " of the host"
		}
		if openZFS && !uncached && !at.HostCaches {
			fix += ", or the property primarycache of the volume to metadata"
		}
		if p.Text("direct") != "auto" {
			fix = "set direct to auto and " + fix
		}
		notes[tool.CaveatFix] = fix
	}
	if workload.OnZFSFuse(at.FileSystem) {
		notes[tool.Caveat] = strings.TrimPrefix(notes[tool.Caveat]+"; "+workload.ZFSFuse, "; ")
	}
	return notes
}
