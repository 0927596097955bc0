// Package bonnie is the tool bonnie++: one pass over a big file, and over many
// small ones.
//
// What to distrust in it:
//
//   - "+++++" and an empty field mean that it was too fast to be measured (under
//     half a second): the figure is missing, and not zero.
//   - A file that memory can hold measures memory. It must be twice as big as
//     what the environment may use, which is refused otherwise; a lab file that
//     states ram itself is believed, and the fingerprint says so.
//   - The table for people and the CSV disagree in places; the CSV is read.
//   - Format 1.98 has two fields more than 1.97, in the middle.
package bonnie

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/measure/tool"
)

// New returns the tool.
func New() tool.Tool { return bonnie{} }

type bonnie struct{}

// measure is one test of bonnie++, and where format 1.98 has it.
type measure struct {
	name, doc string
	rate      int // the field of its rate; its CPU share follows
	latency   int // the field of its worst latency
	files     bool
}

var measures = []measure{
	{name: "char-write", doc: "written byte by byte", rate: 9, latency: 38},
	{name: "write", doc: "written in blocks", rate: 11, latency: 39},
	{name: "rewrite", doc: "read, changed and written in blocks", rate: 13, latency: 40},
	{name: "char-read", doc: "read byte by byte", rate: 15, latency: 41},
	{name: "read", doc: "read in blocks", rate: 17, latency: 42},
	{name: "seek", doc: "random seeks with a read, a tenth with a write", rate: 19, latency: 43},
	{name: "create", doc: "files created in order of their names", rate: 26, latency: 44, files: true},
	{name: "stat", doc: "files looked at in order of their names", rate: 28, latency: 45, files: true},
	{name: "delete", doc: "files deleted in order of their names", rate: 30, latency: 46, files: true},
	{name: "random-create", doc: "files created in random order", rate: 32, latency: 47, files: true},
	{name: "random-stat", doc: "files looked at in random order", rate: 34, latency: 48, files: true},
	{name: "random-delete", doc: "files deleted in random order", rate: 36, latency: 49, files: true},
}

// fields is how many fields format 1.98 has.
const fields = 50

// operations tells whether a rate is of operations, and not of KiB.
func (m measure) operations() bool { return m.files || m.name == "seek" }

func (m measure) unit() string {
	if m.operations() {
		return "op/s"
	}
	return "B/s"
}

func (bonnie) Doc() tool.Doc {
	d := tool.Doc{
		Name: "bonnie", Program: "bonnie++", VersionArgs: []string{"-h"}, Dirs: []string{"/usr/sbin"},
		Summary: "bonnie++ as the platform ships it: one pass over a file bigger than memory, and over small files",
		Packages: map[string][]string{
			"debian": {"bonnie++"}, "alpine": {"bonnie++"}, "freebsd": {"bonnie++"}, "openbsd": {"bonnie++"},
			"netbsd": {"bonnie++"}, "dragonfly": {"bonnie++"}, "smartos": {"bonnie++"},
		},
		Params: []param.Spec{
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume"},
			{Name: "size", Kind: param.Size, Default: "1GiB", Min: 1 << 20, Max: 16 << 40, Doc: "size of the file, whole MiB; at least twice the memory"},
			{Name: "ram", Kind: param.Size, Min: 1 << 20, Max: 8 << 40, Doc: "memory that the file must exceed twice; that of the environment when not set"},
			{Name: "files", Kind: param.Int, Default: "0", Min: 0, Max: 1e5, Doc: "small files, in units of 1024; 0 leaves them out"},
			{Name: "file-max", Kind: param.Size, Default: "0B", Min: 0, Max: 1 << 30, Doc: "size of the biggest small file"},
			{Name: "characters", Kind: param.Bool, Default: "true", Doc: "whether to write and read byte by byte as well"},
			{Name: "sync", Kind: param.Bool, Default: "false", Doc: "no write buffering: fsync after every write"},
			{Name: "seed", Kind: param.Int, Default: "1", Min: 1, Max: 1 << 31, Doc: "seed of the random seeks"},
		},
		Volume: "volume", State: "carried", Cache: "as bonnie++ leaves it; the file is bigger than memory",
		Time: func(p param.Values) time.Duration {
			// Nobody knows the disk: 400 MB a second in each of four passes, and
			// 100 in the two that go byte by byte.
			passes := 4 / 400e6
			if p.Bool("characters") {
				passes += 2 / 100e6
			}
			return time.Duration(passes*float64(p.Bytes("size"))*float64(time.Second)) + 2*time.Second
		},
		Parser: 1,
		Source: []string{"bonnie++(8), bon_csv2txt(1)"},
	}
	for _, m := range measures {
		d.Metrics = append(d.Metrics,
			sample.Metric{Name: m.name, Unit: m.unit(), Better: sample.Higher, Primary: m.name == "write", Scale: sample.Ratio,
				Doc: m.doc + ", a second; absent where it was too fast to tell"},
			sample.Metric{Name: m.name + "-latency-max", Unit: "s", Better: sample.Lower, Scale: sample.Ratio, Doc: "longest single operation of " + m.name})
	}
	return d
}

const mib = 1 << 20

// ram returns the memory that the file must exceed, in bytes.
func ram(p param.Values, at tool.Place) int64 {
	if p.Text("ram") != "" {
		return p.Bytes("ram")
	}
	return at.MemoryBytes
}

func (bonnie) Command(p param.Values, at tool.Place) (tool.Command, error) {
	memory := ram(p, at)
	switch {
	case memory == 0:
		return tool.Command{}, fault.New(fault.Invalid, "ram: nobody knows how much memory the environment may use; write ram: 512MiB")
	case p.Bytes("size")%mib != 0:
		return tool.Command{}, fault.New(fault.Invalid, "size: %s is not a whole number of MiB", p.Text("size"))
	case p.Bytes("size") < 2*memory:
		return tool.Command{}, fault.WithFix(
			fault.New(fault.Invalid, "size: a file of %s is held by the cache of %s: what is measured is memory", p.Text("size"), unit.Bytes(memory)),
			fmt.Sprintf("write size: %s or more, or less memory", unit.Bytes(2*memory)))
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
		argv = append(argv, "-u", "0:0") // it refuses to be root unless told to
	}
	return tool.Command{Argv: argv}, nil
}

func smallFiles(p param.Values) string {
	if p.Int("files") == 0 {
		return "0"
	}
	return fmt.Sprintf("%s:%d:0:1", p.Text("files"), p.Bytes("file-max"))
}

// Notes says when the lab file states less memory than there is.
func (bonnie) Notes(p param.Values, at tool.Place) map[string]string {
	if stated := p.Bytes("ram"); p.Text("ram") != "" && stated < at.MemoryBytes {
		return map[string]string{"cache": fmt.Sprintf("the lab file states %s of memory, and the environment has %s: a file of %s may be held by its cache",
			p.Text("ram"), unit.Bytes(at.MemoryBytes), p.Text("size"))}
	}
	return nil
}

var version = regexp.MustCompile(`(?m)^Version: (\d+\.\d+\S*)`)

// Version reads the end of its usage: there is no option that asks for it.
func (bonnie) Version(out []byte) (map[string]string, error) {
	m := version.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("%.60q has no version of bonnie++", out)
	}
	return map[string]string{"version": string(m[1])}, nil
}

func (b bonnie) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	row, err := read(out.Stdout)
	if err != nil {
		return r, err
	}
	if want := fmt.Sprintf("%dM", p.Bytes("size")/mib); row[5] != want && !sameSize(row[5], p.Bytes("size")) {
		return r, fmt.Errorf("is of a file of %.20q, and %s was asked for", row[5], want)
	}
	d := b.Doc()
	for _, m := range measures {
		rate, ok, err := figure(row[m.rate])
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.name, err)
		}
		if !m.operations() {
			rate *= 1024 // KiB
		}
		if ok {
			r.Add(d, m.name, rate)
		}
		worst, ok, err := duration(row[m.latency])
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.name, err)
		}
		if ok {
			r.Add(d, m.name+"-latency-max", worst)
		}
	}
	return r, nil
}

// read returns the one line of CSV in format 1.98.
func read(out []byte) ([]string, error) {
	reader := csv.NewReader(bytes.NewReader(out))
	reader.FieldsPerRecord = -1
	rows, err := reader.ReadAll()
	switch {
	case err != nil:
		return nil, fmt.Errorf("is not bonnie++'s CSV: %w", err)
	case len(rows) != 1:
		return nil, fmt.Errorf("has %d lines of CSV, and one is right", len(rows))
	case rows[0][0] != "1.98":
		return nil, fmt.Errorf("is in format %.20q, and 1.98 is the one that is understood", rows[0][0])
	case len(rows[0]) != fields:
		return nil, fmt.Errorf("has %d fields, and format 1.98 has %d", len(rows[0]), fields)
	}
	return rows[0], nil
}

// sameSize reads a size as bonnie++ prints it: 2000M, 16G, or plain MiB.
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

// figure reads a rate. ok is false where it was too fast to be told, and where
// it was not measured.
func figure(text string) (v float64, ok bool, err error) {
	if text == "" || strings.Trim(text, "+") == "" {
		return 0, false, nil
	}
	v, err = tool.Decimal(text)
	if err != nil || v < 0 {
		return 0, false, fmt.Errorf("%.20q is no rate", text)
	}
	return v, v > 0, nil
}

// duration reads a latency in seconds: 22us, 116ms, 3s.
func duration(text string) (v float64, ok bool, err error) {
	if text == "" || strings.Trim(text, "+") == "" {
		return 0, false, nil
	}
	for _, u := range []struct {
		suffix string
		scale  float64
	}{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}} {
		if number, found := strings.CutSuffix(text, u.suffix); found {
			v, err = tool.Decimal(number)
			if err != nil || v < 0 {
				break
			}
			return v * u.scale, v > 0, nil
		}
	}
	return 0, false, fmt.Errorf("%.20q is no latency", text)
}
