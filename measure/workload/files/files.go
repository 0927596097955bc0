// Package files is file system work: many small files, and reading and writing
// a large one in blocks.
package files

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Summary: "Creating, looking up (stat) and deleting small files, or reading, writing or copying a large one in blocks",
		Metrics: []sample.Metric{
			sample.Throughput("op/s", "blocks read or written per second, or files created, looked up and deleted per "+
				"second"),
			sample.HigherRatio("bandwidth", "B/s", "bytes per second in the blocks or files that throughput counts"),
			sample.LowerRatio("latency-p50", "s", "median of the time of one operation, with its fsync"),
			sample.LowerRatio("latency-p99", "s", "99th percentile of the time of one operation, with its fsync"),
		},
		Volume:    "volume",
		Files:     filesOf,
		Allocates: func(p param.Values) int64 { return 2 * p.Bytes("block") },
		Refuse:    refuse,
		Cache: "warm, or cold with cache=cold, which drops the cache of the environment's own kernel, not that of a " +
			"host below it",
		Time: workload.TimedFor(500 * time.Millisecond),
		Source: []string{
			"fio, ioengine=psync with iodepth 1: one block after another through pread(2) and pwrite(2). A pass processes " +
				"every block once, in order or in one random permutation; fsync=end is fio's end_fsync for each pass",
			"UnixBench, File Copy: op=copy, block=1KiB, size=2000KiB, fsync=none; UnixBench's other two tests have " +
				"block=256B, size=125KiB (500 blocks) and block=4KiB, size=32000KiB (8000 blocks). The metric " +
				"throughput counts blocks; bandwidth is UnixBench's KBps times 1024",
			"bonnie++, file creation tests: in bakeoff, each operation creates and writes one file, looks up " +
				"another and deletes a third; 512 files are always present",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "files",
		Params: []param.Spec{
			{Name: "op", Kind: param.Text, Default: "create-stat-delete", Enum: []string{"create-stat-delete", "seq-write",
				"seq-read", "rand-write", "rand-read", "copy"},
				Doc: "which operation; copy repeatedly reads a block of one file and writes it to another"},
			{Name: "block", Kind: param.Size, Default: "4KiB", Min: 16, Max: 1 << 30,
				Doc: "size of a block, or of a small file"},
			{Name: "size", Kind: param.Size, Default: "64MiB", Min: 32, Max: 1 << 43,
				Doc: "size of the large file, a multiple of block"},
			{Name: "fsync", Kind: param.Text, Default: "end", Enum: []string{"end", "each", "none"},
				Doc: "when to fsync written data. end: after each pass, and at the end of the timed part; for small " +
					"files: fsync of the directory after every 512 files. each: after each operation. none: never"},
			{Name: "cache", Kind: param.Text, Default: "warm", Enum: []string{"warm", "cold"},
				Doc: "whether reads find the data in memory. cold, for op=seq-read and op=rand-read: bakeoff drops " +
					"the data from memory first, and reads each block once"},
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume to measure"},
			workload.TimeParam,
		},
		Check:   func(p param.Values) error { _, err := parse(p); return err },
		Prepare: prepare,
		Run:     runLoop,
	}
}

// filesOf are the files in the volume.
func filesOf(p param.Values) workload.Files {
	block, size := p.Bytes("block"), p.Bytes("size")
	switch p.Text("op") {
	case "create-stat-delete":
		return workload.Files{Name: "small", Bytes: (present + 1) * block, Param: "block"}
	case "copy":
		return workload.Files{Name: largeName(size, block), Bytes: 2 * size, Param: "size"}
	}
	return workload.Files{Name: largeName(size, block), Bytes: size, Param: "size"}
}

// refuse knows where no cache can be dropped: see evictPages.
func refuse(p param.Values, on workload.Storage) error {
	why := ""
	switch {
	case p.Text("cache") != "cold":
		return nil
	case on.System != "" && on.System != "linux":
		why = on.System + " cannot drop a file from memory and say that it did"
	case on.Backing == "tmpfs":
		why = "a volume with backing: tmpfs is in memory"
	default:
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "cache=cold: %s", why), "write cache: warm, or remove the cell")
}

// work is one of the operations.
type work interface {
	// do does n operations and records the time of each.
	do(n int) error
	// begin is called before the timed part, finish at its end, inside it.
	begin() error
	finish() error
	// check verifies the content of the files after the timed part.
	check() (answer string, err error)
	// forced is what the timed part forced the disk to do; nil if nothing.
	forced() *wire.Forced
	close()
}

// settings are the parameters, read.
type settings struct {
	op, fsync   string
	block, size int64
	cold        bool
	dir         string
}

// parse reads the parameters, and refuses those that contradict each other.
func parse(p param.Values) (settings, error) {
	s := settings{op: p.Text("op"), fsync: p.Text("fsync"), cold: p.Text("cache") == "cold", block: p.Bytes("block"),
		size: p.Bytes("size")}
	const most = 1 << 24
	switch {
	case s.cold && s.op != "seq-read" && s.op != "rand-read":
		return s, fault.New(fault.Invalid, "cache=cold requires op=seq-read or op=rand-read (got %s)", s.op)
	case s.onSmallFiles():
	case s.block%8 != 0:
		return s, fault.New(fault.Invalid, "block must be a multiple of 8 (got %d)", s.block)
	case s.size%s.block != 0 || s.size < 2*s.block:
		return s, fault.New(fault.Invalid,
			"size must be a multiple of block, and at least two blocks (got size=%d, block=%d)", s.size, s.block)
	case s.size/s.block > most:
		return s, fault.New(fault.Invalid, "size is %d blocks; the limit is %d: use larger blocks", s.size/s.block, most)
	}
	return s, nil
}

// readSettings reads the parameters and makes the directory.
func readSettings(p param.Values, env loop.Env) (settings, error) {
	s, err := parse(p)
	if err == nil && env.Dir == "" {
		err = fault.New(fault.Invalid, "files requires a directory; set --dir")
	}
	if err != nil {
		return s, err
	}
	s.dir = env.Dir
	return s, os.MkdirAll(s.dir, 0o700)
}

// onSmallFiles reports whether the operation is on small files.
func (s settings) onSmallFiles() bool { return s.op == "create-stat-delete" }

// prepare makes the large file.
func prepare(ctx context.Context, p param.Values, env loop.Env) error {
	s, err := readSettings(p, env)
	if err != nil || s.onSmallFiles() {
		return err
	}
	return layOut(ctx, s)
}

func runLoop(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	s, err := readSettings(p, env)
	if err != nil {
		return wire.Result{}, err
	}
	t := newTimer()
	w, err := open(s, t)
	if err != nil {
		return wire.Result{}, err
	}
	defer w.close()
	timed := loop.Timed{
		For: p.Duration("time"), Do: w.do, Begin: w.begin, Finish: w.finish,
		// On a disk, twice the work may take any longer time, but it
		// must take longer.
		Low: 1.2, High: 1000,
	}
	if s.cold || s.fsync == "each" {
		// A check would warm the cache, and a disk may take as long for
		// two flushes as for four.
		timed.Largest = 1
	}
	timing, check, err := timed.Verified(ctx, w.check)
	if err != nil {
		return wire.Result{}, err
	}
	res, err := t.result(timing, check, s.block)
	res.Forced = w.forced()
	return res, err
}

func open(s settings, t *timer) (work, error) {
	switch {
	case s.onSmallFiles():
		return openSmall(s, t)
	case s.op == "copy":
		return openCopy(s, t)
	}
	return openLarge(s, t)
}

// timer records the time of every operation of the timed part.
type timer struct {
	hist *hdrhistogram.Histogram
	zero instant
	on   bool
}

func newTimer() *timer {
	return &timer{hist: hdrhistogram.New(1, int64(10*time.Minute), 3), zero: now()}
}

func (t *timer) now() int64 { return since(t.zero) }

// record records an operation that began at from.
func (t *timer) record(from int64) {
	if t.on {
		_ = t.hist.RecordValue(min(t.now()-from, t.hist.HighestTrackableValue()))
	}
}

func (t *timer) result(timing loop.Timing, check wire.Check, bytes int64) (wire.Result, error) {
	quantile := func(name string, q float64) sample.Value {
		return sample.Value{Metric: name, Unit: "s", Value: float64(max(t.hist.ValueAtQuantile(q), 1)) / 1e9}
	}
	res := timing.Result("op", check,
		loop.Throughput(timing.Rate(), "op/s"),
		sample.Value{Metric: "bandwidth", Unit: "B/s", Value: timing.Rate() * float64(bytes)},
		quantile("latency-p50", 50), quantile("latency-p99", 99))
	if n := t.hist.TotalCount(); float64(n) != timing.Work {
		return res, fault.New(fault.Lab, "%d operations were timed instead of %g", n, timing.Work)
	}
	b, err := t.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return res, fault.Wrap(fault.Lab, "encode the histogram", err)
	}
	if _, err := base64.StdEncoding.DecodeString(string(b)); err != nil {
		return res, fault.Wrap(fault.Lab, "encode the histogram", fmt.Errorf("not base64: %w", err))
	}
	res.Histogram = string(b)
	return res, nil
}
