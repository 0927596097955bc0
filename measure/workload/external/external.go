// Package external makes workloads of tools. Each workload has the name of its
// tool. Its runner is in the folder runner.
package external

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/wire"
)

// New makes a workload of a tool.
func New(x tool.Tool) Workload { return Workload{x} }

// Workload describes the workload of a tool and reads its trials.
type Workload struct{ tool tool.Tool }

// Tool is the tool that is run.
func (e Workload) Tool() tool.Tool { return e.tool }

// Doc describes the workload.
func (e Workload) Doc() workload.Doc {
	d := e.tool.Doc()
	out := workload.Doc{
		Name: d.Name, Summary: d.Summary, Params: slices.Clone(d.Params),
		Metrics: slices.Concat(d.Metrics, e.costs()),
		Volume:  d.Volume, FileMemory: d.FileMemory, Memory: d.Memory,
		State: d.State, Cache: d.Cache, Time: d.Time, Parser: d.Parser, Source: d.Source,
		Packages: d.Packages, Programs: []string{d.Program}, Versions: d.Versions(),
	}
	if d.FileSize != "" {
		out.Files = workload.FileOf(d.FileSize)
	}
	if d.Server == tool.Database {
		out.Params = append(out.Params, tool.DatabaseParams()...)
	}
	if d.Server == tool.Web {
		web := http.Workload{}.Doc()
		out.Params = append(out.Params, http.ServerParams()...)
		out.Peer, out.Refuse = true, http.Refuse
		out.PeerPackages, out.PeerPrograms = d.Packages, []string{d.Program}
		out.Packages, out.Programs, out.Needs = web.Packages, web.Programs, web.Needs
	}
	return out
}

// costs are the metrics of CPU time and of energy, which is that of both sides if
// the tool is a load generator.
func (e Workload) costs() []sample.Metric {
	out := []sample.Metric{workload.CPUPerOp, workload.JoulesPerOp}
	if e.tool.Doc().Server == tool.Web {
		out = append(out, workload.GeneratorJoulesPerOp)
	}
	return out
}

// Caveat implements workload.Cautious: what the tool would note of a file system
// that supports O_DIRECT.
func (e Workload) Caveat(p param.Values, on workload.Storage) (caveat, fix string) {
	n, ok := e.tool.(tool.Noter)
	if !ok {
		return "", ""
	}
	notes := n.Notes(p, tool.Place{FileSystem: on.FileSystem, Properties: on.Properties, HostCaches: on.HostCaches,
		MemoryBytes: on.Memory, Probed: true})
	return notes[tool.Caveat], notes[tool.CaveatFix]
}

// Few implements workload.Counted for tools that know it.
func (e Workload) Few(p param.Values, metrics []string) (caveat, fix string) {
	if c, ok := e.tool.(tool.Counted); ok {
		return c.Few(p, metrics)
	}
	return "", ""
}

// Limit bounds the duration of one command of a tool. A program in the
// environment may be slow; a load generator outside stops by its own clock.
func (e Workload) Limit(p param.Values) time.Duration {
	d := e.tool.Doc()
	if d.Server == tool.Web {
		return 2*d.Time(p) + 30*time.Second
	}
	return 5*d.Time(p) + time.Minute
}

// Parse reads the samples of a trial.
func (e Workload) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	values, err := e.parse(raw, p)
	if err == nil {
		return values, nil
	}
	var facts map[string]string
	if json.Unmarshal(raw[workload.Facts], &facts) != nil {
		facts = nil // read says so
	}
	return values, e.tool.Doc().Unread(facts["version"], err)
}

func (e Workload) parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	_, r, err := e.read(raw, p)
	if err != nil {
		return nil, err
	}
	if err := declared(e.tool.Doc(), r); err != nil {
		return nil, err
	}
	costs, err := workload.Costs(raw, r.Work, 0, e.costs()...)
	return append(r.Values, costs...), err
}

// read decodes a trial and parses it with the tool.
func (e Workload) read(raw workload.Raw, p param.Values) (res wire.ExecResult, r tool.Result, err error) {
	if res, err = raw.Exec(workload.ExecBlob); err != nil {
		return res, r, err
	}
	if got := path.Base(res.Argv[0]); got != e.tool.Doc().Program {
		return res, r, fmt.Errorf("%s: the result belongs to another program: %q", workload.ExecBlob, got)
	}
	if err := e.hungError(res, p); err != nil {
		return res, r, err
	}
	if err := Ended(res); err != nil {
		if full := diskFull(res); full != "" {
			err = fault.WithFix(fault.Wrap(fault.Subject, full, err),
				"give the volume more space; twice the size of the file is enough")
		}
		return res, r, err
	}
	if res.Truncated {
		return res, r, fault.New(fault.Subject, "the program printed more than 1 MiB")
	}
	out := tool.Output{Stdout: res.Stdout, Stderr: res.Stderr, Elapsed: time.Duration(res.ElapsedNS),
		Files: map[string][]byte{}}
	for name, b := range raw {
		switch name {
		case workload.ExecBlob, workload.Facts, workload.Host, workload.GeneratorHost, workload.Stderr, workload.PathBlob,
			workload.ProtocolBlob:
		default:
			out.Files[name] = b
		}
	}
	if b, ok := raw[workload.Facts]; ok {
		if err := json.Unmarshal(b, &out.Facts); err != nil {
			return res, r, fmt.Errorf("%s: %w", workload.Facts, err)
		}
	}
	r, err = e.tool.Parse(out, p)
	return res, r, err
}

// hungError classifies a program that did not end. Inside the environment that may
// be the environment's fault. A load generator outside bounds every wait for a
// response and stops by its clock: if it does not end, the fault is its own and
// not the server's.
func (e Workload) hungError(res wire.ExecResult, p param.Values) error {
	took := time.Duration(res.ElapsedNS)
	if res.Signal != syscall.SIGKILL.String() || took < e.Limit(p) {
		return nil
	}
	d := e.tool.Doc()
	kind, where := fault.Subject, ""
	if d.Server == tool.Web {
		kind, where = fault.Lab, ", outside the environment,"
	}
	return fault.New(kind, "%s%s did not end within %v (expected %v) and was killed",
		d.Program, where, took.Round(time.Second), d.Time(p).Round(time.Second))
}

// Diagnose tells the gates what the trial's output says against it.
func (e Workload) Diagnose(raw workload.Raw, p param.Values) (workload.Diagnostics, bool) {
	res, r, err := e.read(raw, p)
	if err != nil && diskFull(res) != "" {
		return workload.Diagnostics{Errors: map[string]int64{wire.DiskFull: 1}}, true
	}
	if err != nil {
		return workload.Diagnostics{}, false // Parse says so
	}
	t := workload.Diagnostics{}
	switch {
	case r.Threads > 0:
		t = workload.LoadOf(res, r.Work, r.Threads)
	case e.tool.Doc().Server == tool.Database && res.CPUs != nil:
		// The client runs beside its server: what others use is that server's.
		t.Generator = workload.LoadOf(res, r.Work, int(p.Int("threads"))).Generator
	}
	t.Errors, t.OwnTime, t.Protocol = r.Errors, r.OwnTime, r.Protocol
	return t, true
}

// declared checks values against the tool's declaration: the units, no
// duplicate metric, and the primary metric, without which the trial measured
// nothing. If the program said that it could not tell the time of its test, the gate own-time
// says so, and the trial is not a failure.
func declared(d tool.Doc, r tool.Result) error {
	values := r.Values
	seen := map[string]bool{}
	for _, v := range values {
		m, ok := d.Metric(v.Metric)
		switch {
		case !ok || seen[v.Metric]:
			return fmt.Errorf("the metric %q is undeclared or a duplicate", v.Metric)
		case v.Unit != m.Unit:
			return fmt.Errorf("the metric %s has the unit %q instead of %q", v.Metric, v.Unit, m.Unit)
		}
		seen[v.Metric] = true
	}
	for _, m := range d.Metrics {
		if m.Primary && !seen[m.Name] && r.OwnTime == "" {
			all := lists.Map(values, func(v sample.Value) string { return v.Metric })
			return fault.New(fault.Subject, "the program did not measure %s (only %s)", m.Name, strings.Join(all, ", "))
		}
	}
	return nil
}

// What programs print of a disk without space, and of a write that was shorter than asked for.
// A file system tells of its last bytes by a short write, and of the error by the next one
// only: btrfs does for 8 KiB if it compresses, and for more always. bonnie++ then prints the
// error of some earlier call, such as "Invalid argument", and PostgreSQL none.
//
// btrfs and ZFS write a block that is written again to another place, and free the old one
// only when the transaction is on the disk, on btrfs after up to 30 seconds: bonnie++ found no
// space in its pass rewrite for a file of 512 MiB on volumes of 526 to 560 MiB, and found it on
// 600 MiB, with compression and with the mount option nodatacow (btrfs(5), commit).
var (
	rewriting = lazy.Compile(`drastic I/O error \(re write\(2\)\): ` +
		`(?:Invalid argument|No space left on device|Success)`)
	noSpace    = lazy.Compile(`No space left on device|[Dd]isk quota exceeded`)
	shortWrite = lazy.Compile(`wrote only \d+ of \d+ bytes|Can't write block\.: (?:Invalid argument|Success|` +
		`No such file or directory|Inappropriate ioctl for device)`)
)

// diskFull says that a program failed for want of space; "" if it did not, or ended well.
func diskFull(res wire.ExecResult) string {
	if res.Code == 0 && res.Signal == "" {
		return ""
	}
	for _, out := range [][]byte{res.Stderr, res.Stdout} {
		switch {
		case rewriting.Match(out):
			return "the disk was full while a file was rewritten: a file system that copies on write, such as btrfs, " +
				"stores what is rewritten a second time for a while"
		case noSpace.Match(out):
			return "the disk was full"
		case shortWrite.Match(out):
			return "a write was shorter than asked for, as on a disk that is almost full"
		}
	}
	return ""
}

// Ended classes how a program ended: what did not end well has failed, and is
// no figure.
func Ended(res wire.ExecResult) error {
	how := fmt.Sprintf("exit code %d", res.Code)
	switch {
	case res.Signal != "":
		how = "signal: " + res.Signal
	case res.Code == 0:
		return nil
	}
	said := Quoted(res.Stderr)
	if said == "" {
		said = Quoted(res.Stdout)
	}
	return fault.New(fault.Subject, "%s failed with %s%s", path.Base(res.Argv[0]), how, said)
}

// Quoted is the last line of a program's output, for a message; "" if there is
// none.
func Quoted(b []byte) string {
	if said := safetext.LastLines(string(b), 1); said != "" {
		return ": " + said
	}
	return ""
}
