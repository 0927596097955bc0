// Package fio is the tool fio: reads and writes of one file. Pitfalls:
//
//   - The default engine depends on the system. Here the default is psync, which
//     exists everywhere; libaio and io_uring exist only on Linux.
//   - With end_fsync the time of the last fsync is inside the runtime, and the
//     section "sync" has N = 0: throughput includes it, and there is no latency
//     to report. A latency with N = 0 is not zero seconds.
//   - O_DIRECT: ZFS before 2.3 accepts and ignores the flag; tmpfs may refuse it.
//     The type of the file system is noted.
//   - Standard output mixes notes and JSON, so the JSON goes to a file.
//   - A queue depth above 1 does nothing with a synchronous engine.
package fio

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
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
		Summary:  "fio as the platform ships it: random and sequential reads and writes of one file in a volume",
		Packages: tool.Everywhere("fio"),
		Metrics: []sample.Metric{
			sample.Throughput("op/s", "reads and writes per second, the final fsync included"),
			sample.HigherRatio("bandwidth", "B/s", "bytes read and written per second"),
		},
		Params: []param.Spec{
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume"},
			{Name: "pattern", Kind: param.Text, Default: "randrw", Enum: []string{"read", "write", "rw", "randread",
				"randwrite", "randrw"}, Doc: "order and kind of operations"},
			{Name: "read-share", Kind: param.Int, Default: "50", Min: 0, Max: 100,
				Doc: "percentage of reads in a mixed pattern"},
			{Name: "block", Kind: param.Size, Default: "4KiB", Min: 512, Max: 64 << 20, Doc: "size of an operation"},
			{Name: "size", Kind: param.Size, Default: "64MiB", Min: 4096, Max: 16 << 40,
				Doc: "size of the file, which is written once before the first trial"},
			{Name: "iodepth", Kind: param.Int, Default: "1", Min: 1, Max: 4096,
				Doc: "operations in progress at a time; more than 1 requires an asynchronous engine"},
			{Name: "engine", Kind: param.Text, Default: "psync", Enum: []string{"psync", "sync", "mmap", "posixaio", "libaio",
				"io_uring"}, Doc: "ioengine; libaio and io_uring exist only on Linux"},
			{Name: "direct", Kind: param.Bool, Default: "false",
				Doc: "bypass the page cache (O_DIRECT); ZFS before 2.3 ignores it"},
			{Name: "invalidate", Kind: param.Bool, Default: "true", Doc: "drop the file from the page cache before the " +
				"test, if the system permits it; with false, reads may come from memory"},
			{Name: "end-fsync", Kind: param.Bool, Default: "true", Doc: "fsync at the end, inside the measured time"},
			{Name: "fsync", Kind: param.Int, Default: "0", Min: 0, Max: 1e9, Doc: "fsync after this many writes; 0 is never"},
			{Name: "align", Kind: param.Size, Min: 1, Max: 1 << 20, Doc: "alignment of fio's buffer in memory, a power of " +
				"two. When not set, the buffer starts 16 bytes past a page. Some CPUs copy to such an address several times " +
				"slower than to a multiple of 64, which matters if the data come from memory"},
			{Name: "seed", Kind: param.Int, Default: "1", Min: 1, Max: 1 << 53, Doc: "seed of the random offsets"},
			{Name: "time", Kind: param.Duration, Default: "1s", Doc: "length of the test"},
		},
		Volume: "volume", State: "carried", Cache: "dropped by fio if the system permits it, unless invalidate=false",
		Time:   func(p param.Values) time.Duration { return p.Duration("time") + 700*time.Millisecond },
		Parser: 1,
		Source: []string{"fio(1), https://fio.readthedocs.io"},
	}
	for _, side := range []string{"read", "write", "sync"} {
		for _, q := range quantiles {
			d.Metrics = append(d.Metrics, sample.LowerRatio(side+"-latency-"+q.name, "s",
				q.percent+"th percentile of the "+side+" latency, closed loop; absent without such operations"))
		}
	}
	return d
}

// asynchronous are the engines that support a queue depth.
var asynchronous = []string{"posixaio", "libaio", "io_uring"}

// check refuses parameters that contradict each other.
func check(p param.Values) error {
	switch {
	case p.Int("iodepth") > 1 && !slices.Contains(asynchronous, p.Text("engine")):
		return fault.WithFix(fault.New(fault.Invalid, "iodepth: %s requires an asynchronous engine, and %s is synchronous",
			p.Text("iodepth"), p.Text("engine")),
			"set engine to libaio (Linux) or posixaio")
	case p.Bytes("size") < p.Bytes("block"):
		return fault.New(fault.Invalid, "size: a file of %s is smaller than a block of %s", p.Text("size"), p.Text("block"))
	case p.Text("align") != "" && p.Bytes("align")&(p.Bytes("align")-1) != 0:
		return fault.New(fault.Invalid, "align must be a power of two (got %s)", p.Text("align"))
	case p.Duration("time") < time.Millisecond:
		return fault.New(fault.Invalid, "time must be at least 1ms (got %s)", p.Text("time"))
	}
	return nil
}

// file is the file that is read and written. An unescaped colon would separate
// two names.
func file(at tool.Place) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(at.Data + "/fio.dat")
}

// Prepare writes the whole file, so that no trial reads holes.
func (fio) Prepare(p param.Values, at tool.Place) ([]tool.Command, error) {
	if err := check(p); err != nil {
		return nil, err
	}
	return []tool.Command{{Argv: []string{"fio", "--name=fill", "--filename=" + file(at), "--rw=write",
		"--bs=1048576", "--size=" + bytes(p, "size"), "--ioengine=psync", "--end_fsync=1", "--refill_buffers=1",
		"--randseed=" + p.Text("seed"), "--output-format=terse"}}}, nil
}

func bytes(p param.Values, name string) string { return strconv.FormatInt(p.Bytes(name), 10) }

// output is the file with the JSON.
const output = "output.json"

func (fio) Command(p param.Values, at tool.Place) (tool.Command, error) {
	if err := check(p); err != nil {
		return tool.Command{}, err
	}
	argv := []string{"fio", "--name=bakeoff", "--filename=" + file(at),
		"--rw=" + p.Text("pattern"), "--rwmixread=" + p.Text("read-share"),
		"--bs=" + bytes(p, "block"), "--size=" + bytes(p, "size"),
		"--ioengine=" + p.Text("engine"), "--iodepth=" + p.Text("iodepth"),
		"--direct=" + flag(p, "direct"), "--invalidate=" + flag(p, "invalidate"), "--end_fsync=" + flag(p, "end-fsync"),
		"--fsync=" + p.Text("fsync"),
		"--randseed=" + p.Text("seed"), "--norandommap=1",
		"--time_based=1", fmt.Sprintf("--runtime=%dms", p.Duration("time").Milliseconds()),
		"--percentile_list=" + percentiles(), "--output-format=json+", "--output=" + output}
	if p.Text("align") != "" {
		argv = append(argv, "--iomem_align="+bytes(p, "align"))
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

func flag(p param.Values, name string) string {
	if p.Bool(name) {
		return "1"
	}
	return "0"
}

// Notes records the file system on which O_DIRECT was requested.
func (fio) Notes(p param.Values, at tool.Place) map[string]string {
	if !p.Bool("direct") {
		return nil
	}
	note := "requested on " + at.FileSystem
	switch at.FileSystem {
	case "":
		note = "requested on an unknown file system"
	case "zfs", "fuse.zfs-fuse":
		note += ", which before OpenZFS 2.3 accepts and ignores the flag"
	}
	return map[string]string{"direct": note}
}
