// Package bonnie is the tool bonnie++: one pass over a large file, and over
// many small ones. Pitfalls:
//
//   - "+++++" and an empty field mean that a test was too fast to measure (under
//     half a second): the value is missing, not zero.
//   - A file that fits in memory measures memory. Command refuses a file smaller
//     than twice the memory of the environment. The parameter ram overrides that
//     memory size, and is noted in the fingerprint.
//   - The table for people and the CSV disagree in places; Parse reads the CSV.
//   - It prints no time, neither of a test nor of the whole. Parse computes from the rates how
//     long their tests took, and compares the sum with the clock of bakeoff.
//   - Format 1.98 has two more fields than 1.97, in the middle.
package bonnie

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/bonniecsv"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/measure/tool"
)

// New returns the tool. It has no option for its version, with which its usage text
// ends.
func New() tool.Tool { return bonnie{tool.VersionBy(`(?m)^Version: (\d+\.\d+\S*)`)} }

type bonnie struct{ tool.Versioned }

func (bonnie) Doc() tool.Doc {
	d := tool.Doc{
		Name: "bonnie", Program: "bonnie++", VersionArgs: []string{"-h"}, Dirs: []string{"/usr/sbin"},
		Tried:    []string{"2.00"},
		Summary:  "bonnie++ as the platform ships it: one pass over a file larger than memory, and over small files",
		Packages: tool.Everywhere("bonnie++"),
		Params: []param.Spec{
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume"},
			{Name: "size", Kind: param.Size, Default: "1GiB", Min: 1 << 20, Max: 16 << 40,
				Doc: "size of the file in whole MiB; at least twice the memory (parameter ram)"},
			{Name: "ram", Kind: param.Size, Min: 1 << 20, Max: 8 << 40,
				Doc: "size of the memory: the file must be at least twice as large; when not set, the memory limit of " +
					"the environment"},
			{Name: "files", Kind: param.Int, Default: "0", Min: 0, Max: 1e5,
				Doc: "number of small files, in units of 1024 files; 0 skips the tests of small files"},
			{Name: "file-max", Kind: param.Size, Default: "0B", Min: 0, Max: 1 << 30, Doc: "maximum size of a small file"},
			{Name: "characters", Kind: param.Bool, Default: "true", Doc: "also write and read byte by byte"},
			{Name: "sync", Kind: param.Bool, Default: "false", Doc: "no write buffering: fsync after every write"},
			{Name: "seed", Kind: param.Int, Default: "1", Min: 1, Max: 1 << 31, Doc: "seed of the random seeks"},
		},
		Volume: "volume", FileSize: "size", FileMemory: fileMemory, Memory: "ram",
		State: "carried", Cache: "as bonnie++ leaves it; the file is larger than memory",
		Time: func(p param.Values) time.Duration {
			// The disk is unknown: assume 400 MB/s in each of four
			// passes, and 100 MB/s in the two byte-by-byte passes.
			passes := 4 / 400e6
			if p.Bool("characters") {
				passes += 2 / 100e6
			}
			return time.Duration(passes*float64(p.Bytes("size"))*float64(time.Second)) + 2*time.Second
		},
		Parser: 3, // 3: a test that was too fast is not a failure
		Source: []string{"bonnie++(8), bon_csv2txt(1)"},
	}
	for _, m := range bonniecsv.Tests {
		d.Metrics = append(d.Metrics,
			sample.Metric{Name: m.Name, Unit: m.Unit(), Better: sample.Higher, Primary: m.Name == "write", Scale: sample.Ratio,
				Doc: m.Doc + ", per second; absent if too fast to measure"},
			sample.LowerRatio(m.Name+"-latency-max", "s", "longest operation of the test "+m.Name),
			m.CPU())
	}
	return d
}

const mib = 1 << 20

// fileMemory is how many times as large as the memory the file is at least: bonnie++
// itself warns below that.
const fileMemory = 2

// memoryOf returns the memory size that the file must exceed, in bytes.
func memoryOf(p param.Values, at tool.Place) int64 {
	if p.Text("ram") != "" {
		return p.Bytes("ram")
	}
	return at.MemoryBytes
}

func (bonnie) Command(p param.Values, at tool.Place) (tool.Command, error) {
	memory := memoryOf(p, at)
	switch {
	case memory == 0:
		return tool.Command{}, fault.New(fault.Invalid,
			"ram: the memory limit of the environment is unknown; set it, for example ram: 512MiB")
	case p.Bytes("size")%mib != 0:
		return tool.Command{}, fault.New(fault.Invalid, "size must be a whole number of MiB (got %s)", p.Text("size"))
	case p.Bytes("size") < fileMemory*memory:
		return tool.Command{}, fault.WithFix(
			fault.New(fault.Invalid, "size: a file of %s fits in %s of memory, so the test would measure memory",
				p.Text("size"), unit.Bytes(memory)),
			fmt.Sprintf("set size to %s or more, or give the environment less memory", unit.Bytes(fileMemory*memory)))
	}
	argv := []string{"bonnie++", "-q", "-d", at.Data, "-m", "bakeoff",
		"-s", strconv.FormatInt(p.Bytes("size")/mib, 10), "-r", strconv.FormatInt(max(1, memory/mib), 10),
		"-n", smallFiles(p), "-z", p.Text("seed")}
	if !p.Bool("characters") {
		argv = append(argv, "-f")
	}
	if p.Bool("sync") {
		argv = append(argv, "-b")
	}
	if at.UID == "0" {
		argv = append(argv, "-u", "0:0") // it refuses to run as root otherwise
	}
	return tool.Command{Argv: argv}, nil
}

func smallFiles(p param.Values) string {
	if p.Int("files") == 0 {
		return "0"
	}
	return fmt.Sprintf("%s:%d:0:1", p.Text("files"), p.Bytes("file-max"))
}

// Notes warns if the parameter ram is smaller than the memory limit.
func (bonnie) Notes(p param.Values, at tool.Place) map[string]string {
	if stated := p.Bytes("ram"); p.Text("ram") != "" && stated < at.MemoryBytes {
		return map[string]string{
			"cache": fmt.Sprintf("the lab file sets ram to %s, but the environment has %s: a file of %s may fit in its cache",
				p.Text("ram"), unit.Bytes(at.MemoryBytes), p.Text("size"))}
	}
	return nil
}

func (b bonnie) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	row, err := bonniecsv.Read(out.Stdout)
	if err != nil {
		return r, err
	}
	if want := fmt.Sprintf("%dM", p.Bytes("size")/mib); row[5] != want && !sameSize(row[5], p.Bytes("size")) {
		return r, fmt.Errorf("the output is for a file with the size %.20q instead of %s", row[5], want)
	}
	d := b.Doc()
	claimed := 0.0 // seconds
	for _, m := range bonniecsv.Tests {
		rate, err := bonniecsv.Figure(row[m.Rate])
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.Name, err)
		}
		if !m.Operations() {
			rate *= 1024 // KiB
		}
		r.AddKnown(d, m.Name, rate)
		if work := workOf(m, p); rate > 0 {
			claimed += work / rate
		}
		worst, err := bonniecsv.Duration(row[m.Latency])
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.Name, err)
		}
		r.AddKnown(d, m.Name+"-latency-max", worst)
		share, known, err := bonniecsv.Share(row[m.Rate+1])
		if err != nil {
			return r, fmt.Errorf("CPU of %s: %w", m.Name, err)
		}
		if known {
			r.Add(d, m.CPU().Name, share)
		}
	}
	if took := out.Elapsed.Seconds(); took > 0 && claimed > 1.02*took+0.05 {
		r.OwnTime = fmt.Sprintf("by its rates, the tests of bonnie++ took %.3g s, but the whole program took %.3g s: its "+
			"clock was set, or runs fast", claimed, took)
	}
	for _, m := range d.Metrics {
		if m.Primary && !slices.ContainsFunc(r.Values, func(v sample.Value) bool { return v.Metric == m.Name }) {
			r.OwnTime = fmt.Sprintf("bonnie++ found %s too fast to measure: under half a second; write a larger size", m.Name)
		}
	}
	return r, nil
}

// workOf is what a test does in the unit of its rate; 0 if bonnie++ does not say it: byte by byte
// it reads and writes a part of the file, and the number of seeks varies.
func workOf(m bonniecsv.Test, p param.Values) float64 {
	switch {
	case m.Files:
		return float64(p.Int("files")) * 1024
	case m.Operations(), m.Name == "char-write", m.Name == "char-read":
		return 0
	}
	return float64(p.Bytes("size"))
}

// sameSize compares a size as bonnie++ prints it: 2000M, 16G, or plain MiB.
func sameSize(text string, size int64) bool {
	scale := int64(mib)
	switch {
	case strings.HasSuffix(text, "G"):
		scale = 1 << 30
	case strings.HasSuffix(text, "K"), strings.HasSuffix(text, "k"):
		scale = 1 << 10
	}
	n, err := strconv.ParseInt(strings.TrimRight(text, "GMKk"), 10, 64)
	return err == nil && n > 0 && n < math.MaxInt64/scale && n*scale == size
}
