// Package files is the work of a file system: many small files, and reading
// and writing a large one in blocks.
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
	quantile := func(name, doc string) sample.Metric {
		return sample.Metric{Name: name, Unit: "s", Better: sample.Lower, Scale: sample.Ratio, Doc: doc}
	}
	return workload.Native(workload.Doc{
		Name:    "files",
		Summary: "Creating, looking at and deleting small files, or reading, writing or copying a large one in blocks",
		Metrics: []sample.Metric{
			workload.Throughput("op/s", "blocks read or written a second, or files created, looked at and deleted"),
			{Name: "bandwidth", Unit: "B/s", Better: sample.Higher, Scale: sample.Ratio, Doc: "bytes of those blocks or files a second"},
			quantile("latency-p50", "median of the time of one operation, with its fsync"),
			quantile("latency-p99", "99th percentile of the time of one operation, with its fsync"),
		},
		Volume: "volume",
		State:  "carried",
		Cache:  "warm, or cold with cache=cold: of the environment's own kernel; a host below keeps what it has",
		Time:   workload.TimedFor(500 * time.Millisecond),
		Source: []string{
			"fio, ioengine=psync with iodepth 1: one block after another through pread(2) and pwrite(2). A pass takes every block once, in order or in one random permutation; fsync=end is fio's end_fsync for each pass.",
			"UnixBench, File Copy: op=copy, block=1KiB, size=2000KiB, fsync=none; its other two are 256B with 125KiB (500 blocks) and 4KiB with 32000KiB (8000 blocks). Throughput is in blocks; bandwidth is its KBps times 1024.",
			"bonnie++, file creation tests: here one file is created and written, another looked at, a third deleted in each operation, with 512 files present all the time.",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "files",
		Params: []param.Spec{
			{Name: "op", Kind: param.Text, Default: "create-stat-delete", Enum: []string{"create-stat-delete", "seq-write", "seq-read", "rand-write", "rand-read", "copy"}, Doc: "what is done; copy reads a block of one file and writes it to another, over and over"},
			{Name: "block", Kind: param.Size, Default: "4KiB", Min: 16, Max: 1 << 30, Doc: "bytes of a block, or of a small file"},
			{Name: "size", Kind: param.Size, Default: "64MiB", Min: 32, Max: 1 << 43, Doc: "bytes of the large file, a multiple of block"},
			{Name: "fsync", Kind: param.Text, Default: "end", Enum: []string{"end", "each", "none"}, Doc: "when what was written is forced to the disk: after each pass and at the end (of small files their directory, every 512 of them), after each operation, or never"},
			{Name: "cache", Kind: param.Text, Default: "warm", Enum: []string{"warm", "cold"}, Doc: "cold: what is read was put out of memory first, and is read once"},
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "path of the declared volume that is measured"},
			workload.TimeParam,
		},
		Prepare: prepare,
		Reset:   reset,
		Run:     run,
	}
}

// work is one of the operations.
type work interface {
	// do does n operations and records the time of each.
	do(n int) error
	// begin is called before the timed part, finish at its end, inside it.
	begin() error
	finish() error
	// check verifies afterwards what is in the files.
	check() (answer string, err error)
	// forced is what the timed part made the disk do, nil where nothing was
	// forced to it.
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

func read(p param.Values, env loop.Env) (settings, error) {
	s := settings{
		op: p.Text("op"), fsync: p.Text("fsync"), cold: p.Text("cache") == "cold",
		block: p.Bytes("block"), size: p.Bytes("size"), dir: env.Dir,
	}
	const most = 1 << 24
	switch {
	case s.dir == "":
		return s, fault.New(fault.Invalid, "files has no directory; give --dir")
	case s.small():
	case s.block%8 != 0:
		return s, fault.New(fault.Invalid, "block=%d is no multiple of 8", s.block)
	case s.size%s.block != 0 || s.size < 2*s.block:
		return s, fault.New(fault.Invalid, "size=%d is no multiple of block=%d, or less than two", s.size, s.block)
	case s.size/s.block > most:
		return s, fault.New(fault.Invalid, "size is %d blocks; %d are the most: take larger ones", s.size/s.block, most)
	}
	if s.cold && s.op != "seq-read" && s.op != "rand-read" {
		return s, fault.New(fault.Invalid, "cache=cold is of reading; %s leaves no choice", s.op)
	}
	return s, os.MkdirAll(s.dir, 0o700)
}

// small tells that the operation is on small files.
func (s settings) small() bool { return s.op == "create-stat-delete" }

// prepare makes the large file.
func prepare(ctx context.Context, p param.Values, env loop.Env) error {
	s, err := read(p, env)
	if err != nil || s.small() {
		return err
	}
	return layOut(ctx, s)
}

// reset removes the small files that a trial left.
func reset(_ context.Context, p param.Values, env loop.Env) error {
	s, err := read(p, env)
	if err != nil {
		return err
	}
	return os.RemoveAll(s.smallDir())
}

func run(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	s, err := read(p, env)
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
		// Twice the work of a disk takes any time above once. What must not
		// be is that it takes none.
		Low: 1.2, High: 1000,
	}
	if s.cold || s.fsync == "each" {
		// What a check reads is no longer cold, and a disk is free to take
		// as long for two flushes as for four.
		timed.Largest = 1
	}
	timing, err := timed.Run(ctx)
	if err != nil {
		return wire.Result{}, err
	}
	answer, err := w.check()
	if err != nil {
		return wire.Result{}, err
	}
	res, err := t.result(timing, wire.Check{Answer: answer}, s.block)
	res.Forced = w.forced()
	return res, err
}

func open(s settings, t *timer) (work, error) {
	switch {
	case s.small():
		return openSmall(s, t)
	case s.op == "copy":
		return openCopy(s, t)
	}
	return openLarge(s, t)
}

// timer records the time of every operation of the timed part.
type timer struct {
	hist *hdrhistogram.Histogram
	zero time.Time
	on   bool
}

func newTimer() *timer {
	return &timer{hist: hdrhistogram.New(1, int64(10*time.Minute), 3), zero: time.Now()}
}

func (t *timer) now() int64 { return int64(time.Since(t.zero)) }

// took records an operation that began at from.
func (t *timer) took(from int64) {
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
		return res, fault.New(fault.Lab, "%d operations were timed, and %g done", n, timing.Work)
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
