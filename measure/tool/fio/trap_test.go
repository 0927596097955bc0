package fio

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/tooltest"
)

func with(set param.Values) param.Values { return tooltest.With(New(), set) }

// The engine is always given, and the final fsync is in the time that counts.
func TestArgumentsArePinned(t *testing.T) {
	cmd, err := New().Command(with(nil), tooltest.At())
	if err != nil {
		t.Fatal(err)
	}
	// At says that no probe succeeded
	for _, want := range []string{"--ioengine=psync", "--end_fsync=1", "--bs=4096", "--iodepth=1", "--direct=0",

		"--output=output.json", "--rw=randrw", "--rwmixread=50"} {
		if !slices.Contains(cmd.Argv, want) {
			t.Errorf("%s is not in %q", want, cmd.Argv)
		}
	}
	at := tooltest.At()
	at.Data = "/data/a:b"
	if cmd, _ = New().Command(with(nil), at); !slices.Contains(cmd.Argv, `--filename=/data/a\:b/fio.dat`) {
		t.Errorf("a colon would part two files: %q", cmd.Argv)
	}
	fill, err := New().(tool.Preparer).Prepare(with(nil), tooltest.At())
	if err != nil || len(fill) != 1 || !slices.Contains(fill[0].Argv, "--rw=write") {
		t.Errorf("the file is filled by %v, %v", fill, err)
	}
}

func TestRefusesWhatDoesNothing(t *testing.T) {
	for name, set := range map[string]param.Values{
		"depth of a synchronous engine": {"iodepth": "4"},
		"alignment to three bytes":      {"align": "3"},
		"file smaller than a block":     {"size": "4KiB", "block": "1MiB"},
		"no time":                       {"time": "0s"},
		"direct with the page cache":    {"direct": "true", "engine": "mmap"},
	} {
		if _, err := New().Command(with(set), tooltest.At()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New().Command(with(param.Values{"iodepth": "4", "engine": "libaio"}), tooltest.At()); err != nil {
		t.Errorf("libaio with a depth of 4: %v", err)
	}
}

// The default measures storage where the file system supports O_DIRECT. Where it
// does not, and where the lab file asks for buffered operations, the caveat says
// what was measured.
func TestDirect(t *testing.T) {
	for _, c := range []struct {
		what, fs       string
		set            param.Values
		probed, cached bool
		memory         int64
		flag           string
		fact, caveat   string
	}{
		{"the default where it works", "ext4", nil, true, false, 512 << 20, "1", "true: ext4 supports O_DIRECT", ""},
		{"the default where it does not", "nfs", nil, false, false, 512 << 20, "0",
			"false: a block of 4KiB cannot be written with O_DIRECT to nfs",
			"direct=false, fits in memory: a file of 64MiB in 512MiB of memory, not storage"},
		{"a file larger than memory", "nfs", param.Values{"size": "1GiB"}, false, false, 512 << 20, "0",
			"false: a block of 4KiB cannot be written with O_DIRECT to nfs", ""},
		{"memory itself", "tmpfs", nil, true, false, 512 << 20, "0", "false: tmpfs ignores O_DIRECT",
			"direct=false, fits in memory: a file of 64MiB in 512MiB of memory, not storage"},
		{"an engine with the page cache", "ext4", param.Values{"engine": "mmap"}, true, false, 512 << 20, "0",
			"false: the engine mmap reads and writes the page cache",
			"direct=false, fits in memory: a file of 64MiB in 512MiB of memory, not storage"},
		{"a buffer that is not aligned", "ext4", param.Values{"align": "64B"}, true, false, 1 << 20, "0",
			"false: O_DIRECT needs an align that is a multiple of 512B", ""},
		{"buffered", "ext4", param.Values{"direct": "false"}, true, false, 512 << 20, "0", "false: set by the lab file",
			"direct=false, fits in memory: a file of 64MiB in 512MiB of memory, not storage"},
		{"buffered in unknown memory", "ext4", param.Values{"direct": "false"}, true, false, 0, "0",
			"false: set by the lab file", "direct=false: the page cache may hold the file of 64MiB"},
		{"a flag that is ignored", "zfs", param.Values{"direct": "true"}, true, false, 512 << 20, "1",
			"true: set by the lab file", "direct=true, but zfs may ignore it: this may be memory"},
		{"a file larger than the environment's memory on ZFS", "zfs", param.Values{"size": "1GiB"}, true, false,
			512 << 20, "0", "false: zfs ignores O_DIRECT",
			"direct=false: the ARC, ZFS's cache in the memory of the host, may hold the file of 1GiB"},
		{"a daemon whose cache is in the environment", "fuse.zfs-fuse", param.Values{"size": "1GiB"}, true, false, 512 << 20,
			"0", "false: fuse.zfs-fuse ignores O_DIRECT", "zfs-fuse, not OpenZFS"},
		{"zfs-fuse as Debian mounts it", "fuse.zfs", nil, true, true, 512 << 20, "1", "true: fuse.zfs supports O_DIRECT",
			"direct=true, but the host caches the volume: this may be the host's memory; zfs-fuse, not OpenZFS"},
		{"the host's cache", "ext4", nil, true, true, 512 << 20, "1", "true: ext4 supports O_DIRECT",
			"direct=true, but the host caches the volume: this may be the host's memory"},
	} {
		at := tooltest.At()
		at.FileSystem, at.Probed, at.HostCaches, at.MemoryBytes = c.fs, c.probed, c.cached, c.memory
		cmd, err := New().Command(with(c.set), at)
		if err != nil || !slices.Contains(cmd.Argv, "--direct="+c.flag) {
			t.Errorf("%s: %q, %v", c.what, cmd.Argv, err)
		}
		notes := New().(tool.Noter).Notes(with(c.set), at)
		if notes["direct"] != c.fact || notes[tool.Caveat] != c.caveat {
			t.Errorf("%s: direct %q, caveat %q", c.what, notes["direct"], notes[tool.Caveat])
		}
		if fix := notes[tool.CaveatFix]; (fix != "") != (strings.Contains(c.caveat, "direct=") && c.flag == "0") {
			t.Errorf("%s: fix %q", c.what, fix)
		} else if fix != "" && strings.Contains(fix, "set direct to auto") != (c.set["direct"] != "") {
			t.Errorf("%s: direct is %q, and the fix is %q", c.what, c.set["direct"], fix)
		} else if strings.Contains(fix, "memory of the host") != (fix != "" && c.fs == "zfs") {
			t.Errorf("%s: on %s the fix is %q", c.what, c.fs, fix)
		}
	}
	if argv := New().(tool.Prober).Probe(with(param.Values{"direct": "true"}), tooltest.At()); argv != nil {
		t.Errorf("what the lab file sets is probed: %q", argv)
	}
}

// With end_fsync alone there is no latency of a sync: fio counts none. It is
// absent, and not zero.
func TestNoSyncIsNotZero(t *testing.T) {
	for _, g := range tooltest.Load(t, New()) {
		r, err := New().Parse(g.Output, g.Params)
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(r.Values, func(v sample.Value) bool { return strings.HasPrefix(v.Metric, "sync-") })
		if want := g.Params.Int("fsync") > 0; has != want {
			t.Errorf("%s: latency of a sync: %v, want %v", g.Path, has, want)
		}
	}
}

// The percentiles that fio prints are those of the histogram in its JSON.
func TestPercentilesAreOfTheHistogram(t *testing.T) {
	for _, g := range tooltest.Load(t, New()) {
		var r struct {
			Jobs []map[string]json.RawMessage `json:"jobs"`
		}
		if err := json.Unmarshal(g.Output.Files[output], &r); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"read", "write"} {
			var s struct {
				Latency struct {
					latency
					Bins map[string]float64 `json:"bins"`
				} `json:"clat_ns"`
			}
			if err := json.Unmarshal(r.Jobs[0][name], &s); err != nil {
				t.Fatal(err)
			}
			for _, q := range quantiles {
				percent, _ := strconv.ParseFloat(q.percent, 64)
				printed := s.Latency.percentile(q.percent)
				if *s.Latency.N == 0 || printed == 0 {
					continue
				}
				if own := quantile(s.Latency.Bins, percent/100); math.Abs(own/printed-1) > 0.02 {
					t.Errorf("%s: %s p%s is %g ns, by its histogram %g", g.Path, name, q.percent, printed, own)
				}
			}
		}
	}
}

// quantile reads a quantile off a histogram of json+.
func quantile(bins map[string]float64, q float64) float64 {
	type bin struct{ at, n float64 }
	var all []bin
	total := 0.0
	for at, n := range bins {
		v, _ := strconv.ParseFloat(at, 64)
		all = append(all, bin{v, n})
		total += n
	}
	slices.SortFunc(all, func(a, b bin) int { return int(a.at - b.at) })
	sum := 0.0
	for _, b := range all {
		if sum += b.n; sum >= q*total {
			return b.at
		}
	}
	return 0
}

// Every option that fio repeats is the one that was asked for; otherwise the trial
// failed.
func TestEchoedOptions(t *testing.T) {
	g := tooltest.Load(t, New())[1]
	if _, err := New().Parse(g.Output, g.Params); err != nil {
		t.Fatal(err)
	}
	text := string(g.Output.Files[output])
	for _, name := range []string{"end_fsync", "direct", "size", "runtime", "bs", "iodepth", "ioengine", "rw", "fsync",
		"rwmixread", "time_based", "randseed", "norandommap"} {
		i := strings.Index(text, `"`+name+`" : "`)
		if i < 0 {
			t.Fatalf("%s does not repeat %s", g.Path, name)
		}
		i += len(name) + 6
		out := g.Output
		out.Facts = map[string]string{"direct": "false: set by the lab file"}
		out.Files = map[string][]byte{output: []byte(text[:i] + "7" + text[i:])}
		if _, err := New().Parse(out, g.Params); !fault.Is(err, fault.Subject) ||
			!strings.Contains(err.Error(), "with "+name+" ") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	g.Params["time"] = "1s"
	short := g.Output
	short.Files = map[string][]byte{output: []byte(strings.Replace(text, `"runtime" : "300ms"`,
		`"runtime" : "1000ms"`, 1))}
	short.Elapsed = 500 * time.Millisecond
	if _, err := New().Parse(short, g.Params); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "ended early") {
		t.Errorf("a test that ended early: %v", err)
	}
	short.Elapsed = 1100 * time.Millisecond
	if r, err := New().Parse(short, g.Params); err != nil || r.OwnTime == "" {
		t.Errorf("a test whose clock started late: %q, %v", r.OwnTime, err)
	}
}

// An output of another run, and a job that failed, are no figures.
func TestRefusals(t *testing.T) {
	g := tooltest.Load(t, New())[0]
	g.Params["pattern"] = "trim"
	if _, err := New().Parse(g.Output, g.Params); err == nil || !strings.Contains(err.Error(), "instead of") {
		t.Errorf("another pattern: %v", err)
	}
	text := `{"fio version":"fio-3.33","jobs":[{"error":28,"job options":{"rw":"randrw","bs":"4096",` +
		`"ioengine":"psync","iodepth":"1"}}]}`
	_, err := New().Parse(tool.Output{Files: map[string][]byte{output: []byte(text)}}, with(nil))
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "error 28") {
		t.Errorf("a job that failed: %v", err)
	}
}

// A pool that keeps no file data in its cache may still be answered by the cache of the
// host that has its file.
func TestAPoolWithoutDataInItsCache(t *testing.T) {
	for _, c := range []struct {
		primarycache, caveat string
		cached, advised      bool
	}{
		{"metadata", "", false, false},
		{"none", "", false, false},
		{"metadata", "direct=false, and the host caches the file of the pool: this may be the host's memory", true, false},
		{"all", "direct=false, fits in memory: a file of 64MiB in 512MiB of memory, not storage", false, true},
		{"all", "direct=false, fits in memory: a file of 64MiB in 512MiB of memory, not storage", true, false},
	} {
		at := tooltest.At()
		at.FileSystem, at.Probed, at.HostCaches, at.MemoryBytes = "zfs", true, c.cached, 512<<20
		at.Properties = map[string]string{"primarycache": c.primarycache}
		notes := New().(tool.Noter).Notes(with(nil), at)
		if notes[tool.Caveat] != c.caveat || strings.Contains(notes[tool.CaveatFix], "primarycache") != c.advised {
			t.Errorf("%+v: %q; %q", c, notes[tool.Caveat], notes[tool.CaveatFix])
		}
	}
}

// fio 2 has no clat_ns, and its io_bytes are KiB. A member that is missing is no zero: it
// is named, with the version.
func TestOldReportIsNamed(t *testing.T) {
	old := `{"fio version":"fio-2.21","jobs":[{"jobname":"bakeoff","error":0,
"read":{"io_bytes":1024,"bw":1024,"iops":256.0,"runtime":1000,"total_ios":256,"short_ios":0,"drop_ios":0,
"clat":{"min":1,"max":2,"mean":1.5,"percentile":{"50.000000":1}}},"write":{"io_bytes":0}}]}`
	_, err := readReport([]byte(old))
	if err == nil || !strings.Contains(err.Error(), "in the report of fio-2.21 lacks ") {
		t.Errorf("%v", err)
	}
	if warning, err := (fio{}).Doc().Check("2.21"); err == nil || warning != "" {
		t.Errorf("version 2.21: %q, %v", warning, err)
	}
}
