// Package fio is the tool fio: reads and writes of one file.
//
// What to distrust in it:
//
//   - The default engine depends on the system. psync is everywhere, and is
//     always given unless the lab file names another; libaio and io_uring are
//     Linux' alone.
//   - With end_fsync the time of the last fsync is inside the runtime, and the
//     section "sync" says N = 0: throughput includes it, and there is no latency
//     of it to report. A latency of N = 0 is never zero seconds.
//   - O_DIRECT: ZFS before 2.3 takes the flag and ignores it; tmpfs may refuse
//     it. What file system it was is noted.
//   - Only standard output mixes notes and JSON, so the JSON goes to a file.
//   - A queue depth above 1 does nothing with a synchronous engine.
package fio

import (
	"fmt"
	"regexp"
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
func New() tool.Tool { return fio{} }

type fio struct{}

// quantiles are those that are asked for and reported.
var quantiles = []struct{ name, percent string }{
	{"p50", "50"}, {"p99", "99"}, {"p999", "99.9"},
}

func (fio) Doc() tool.Doc {
	d := tool.Doc{
		Name: "fio", Program: "fio", VersionArgs: []string{"--version"},
		Summary: "fio as the platform ships it: random and sequential reads and writes of one file in a volume",
		Packages: map[string][]string{
			"debian": {"fio"}, "alpine": {"fio"}, "freebsd": {"fio"}, "openbsd": {"fio"},
			"netbsd": {"fio"}, "dragonfly": {"fio"}, "smartos": {"fio"},
		},
		Metrics: []sample.Metric{
			{Name: "throughput", Unit: "op/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio,
				Doc: "reads and writes a second; the time of the final fsync counts"},
			{Name: "bandwidth", Unit: "B/s", Better: sample.Higher, Scale: sample.Ratio, Doc: "bytes read and written a second"},
		},
		Params: []param.Spec{
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume"},
			{Name: "pattern", Kind: param.Text, Default: "randrw", Enum: []string{"read", "write", "rw", "randread", "randwrite", "randrw"}, Doc: "order and kind of the operations"},
			{Name: "read-share", Kind: param.Int, Default: "50", Min: 0, Max: 100, Doc: "reads in a mixed pattern, percent"},
			{Name: "block", Kind: param.Size, Default: "4KiB", Min: 512, Max: 64 << 20, Doc: "size of an operation"},
			{Name: "size", Kind: param.Size, Default: "64MiB", Min: 4096, Max: 16 << 40, Doc: "size of the file, which is written once beforehand"},
			{Name: "iodepth", Kind: param.Int, Default: "1", Min: 1, Max: 4096, Doc: "operations under way at a time; more than 1 needs an asynchronous engine"},
			{Name: "engine", Kind: param.Text, Default: "psync", Enum: []string{"psync", "sync", "mmap", "posixaio", "libaio", "io_uring"}, Doc: "ioengine; libaio and io_uring are on Linux only"},
			{Name: "direct", Kind: param.Bool, Default: "false", Doc: "past the cache (O_DIRECT); ZFS before 2.3 ignores it"},
			{Name: "invalidate", Kind: param.Bool, Default: "true", Doc: "put the file out of memory before the test, where the system lets fio; with false reads come from memory if it holds them"},
			{Name: "end-fsync", Kind: param.Bool, Default: "true", Doc: "fsync at the end, inside the time that counts"},
			{Name: "fsync", Kind: param.Int, Default: "0", Min: 0, Max: 1e9, Doc: "fsync after so many writes; 0 never"},
			{Name: "align", Kind: param.Size, Min: 1, Max: 1 << 20, Doc: "alignment of fio's buffer in memory, a power of two; when not set fio's own, which is 16 bytes past a page: there some CPUs copy several times slower than at 64 or 4096, which shows where data come from memory"},
			{Name: "seed", Kind: param.Int, Default: "1", Min: 1, Max: 1 << 53, Doc: "seed of the random offsets"},
			{Name: "time", Kind: param.Duration, Default: "1s", Doc: "length of the test"},
		},
		Volume: "volume", State: "carried", Cache: "dropped by fio where the system lets it, unless invalidate=false",
		Time:   func(p param.Values) time.Duration { return p.Duration("time") + 700*time.Millisecond },
		Parser: 1,
		Source: []string{"fio(1), https://fio.readthedocs.io"},
	}
	for _, side := range []string{"read", "write", "sync"} {
		for _, q := range quantiles {
			d.Metrics = append(d.Metrics, sample.Metric{Name: side + "-latency-" + q.name, Unit: "s", Better: sample.Lower, Scale: sample.Ratio,
				Doc: q.percent + "th percentile of a " + side + "'s latency, of a closed loop; absent where there was none"})
		}
	}
	return d
}

// asynchronous are the engines for which a queue depth means something.
var asynchronous = []string{"posixaio", "libaio", "io_uring"}

// check refuses parameters that do not fit together.
func check(p param.Values) error {
	switch {
	case p.Int("iodepth") > 1 && !slices.Contains(asynchronous, p.Text("engine")):
		return fault.WithFix(fault.New(fault.Invalid, "iodepth: %s operations at a time, and the engine %s does one", p.Text("iodepth"), p.Text("engine")),
			"write engine: libaio (Linux) or posixaio")
	case p.Bytes("size") < p.Bytes("block"):
		return fault.New(fault.Invalid, "size: a file of %s has no block of %s", p.Text("size"), p.Text("block"))
	case p.Text("align") != "" && p.Bytes("align")&(p.Bytes("align")-1) != 0:
		return fault.New(fault.Invalid, "align: %s is no power of two", p.Text("align"))
	case p.Duration("time") < time.Millisecond:
		return fault.New(fault.Invalid, "time: %s is no length of a test; write 1s", p.Text("time"))
	}
	return nil
}

// file is the file that is read and written. A colon would part two names.
func file(at tool.Place) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(at.Data + "/fio.dat")
}

// Prepare writes the whole file, so that no trial finds holes in it.
func (fio) Prepare(p param.Values, at tool.Place) ([]tool.Command, error) {
	if err := check(p); err != nil {
		return nil, err
	}
	return []tool.Command{{Argv: []string{"fio", "--name=fill", "--filename=" + file(at), "--rw=write",
		"--bs=1048576", "--size=" + bytes(p, "size"), "--ioengine=psync", "--end_fsync=1", "--refill_buffers=1",
		"--randseed=" + p.Text("seed"), "--output-format=terse"}}}, nil
}

func bytes(p param.Values, name string) string { return strconv.FormatInt(p.Bytes(name), 10) }

// output is the file that the JSON goes to.
const output = "output.json"

func (fio) Command(p param.Values, at tool.Place) (tool.Command, error) {
	if err := check(p); err != nil {
		return tool.Command{}, err
	}
	argv := []string{"fio", "--name=bakeoff", "--filename=" + file(at),
		"--rw=" + p.Text("pattern"), "--rwmixread=" + p.Text("read-share"),
		"--bs=" + bytes(p, "block"), "--size=" + bytes(p, "size"),
		"--ioengine=" + p.Text("engine"), "--iodepth=" + p.Text("iodepth"),
		"--direct=" + flag(p, "direct"), "--invalidate=" + flag(p, "invalidate"), "--end_fsync=" + flag(p, "end-fsync"), "--fsync=" + p.Text("fsync"),
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

// Notes says which file system O_DIRECT was asked of.
func (fio) Notes(p param.Values, at tool.Place) map[string]string {
	if !p.Bool("direct") {
		return nil
	}
	note := "asked of " + at.FileSystem
	switch at.FileSystem {
	case "":
		note = "asked of a file system that nobody knows"
	case "zfs", "fuse.zfs-fuse":
		note += ", which before OpenZFS 2.3 takes the flag and ignores it"
	}
	return map[string]string{"direct": note}
}

var version = regexp.MustCompile(`^fio-(\d+\.\d+\S*)`)

func (fio) Version(out []byte) (map[string]string, error) {
	m := version.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("%.60q is no version of fio", out)
	}
	return map[string]string{"version": string(m[1])}, nil
}
