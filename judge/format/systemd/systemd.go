// Package systemd reads what systemd-analyze prints about a boot: time, blame and
// critical-chain.
package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type systemd struct{}

// New returns the format.
func New() format.Format { return systemd{} }

func (systemd) Doc() format.Doc {
	return format.Doc{
		Name:    "systemd",
		Program: "systemd-analyze, systemd-analyze blame or systemd-analyze critical-chain > FILE",
		Labels: []format.LabelDoc{
			{Name: "report", Doc: "time, blame or critical-chain"},
			{Name: "part", Doc: "phase of the boot, or unit"},
		},
		Order: "A file describes one boot. Units start in parallel and wait for each other, so their times do not add up. " +
			"Use one file for each boot.",
		InOrder: true,
		Source:  []string{"systemd-analyze(1)"},
	}
}

// span is a time as systemd prints it, such as "1min 2.345s".
const span = `\d+(?:\.\d+)?(?:y|month|w|d|h|min|s|ms|us)(?: \d+(?:\.\d+)?(?:y|month|w|d|h|min|s|ms|us))*`

// unit is the name of a unit.
const unit = `\S+\.(?:service|socket|target|device|mount|automount|swap|timer|path|slice|scope)`

var (
	started = lazy.Compile(`^Startup finished in (.*\((?:firmware|loader|kernel|initrd|userspace|soft reboot)\).*)$`)
	phase   = lazy.Compile(`(?:^|\+ )(` + span + `) \((\w+(?: \w+)*)\)`)
	total   = lazy.Compile(` = (` + span + `)\.? *$`)
	never   = lazy.Compile(`^` + unit + ` (?:was never reached|is not active)\.$`)
	reached = lazy.Compile(`^(` + unit + `) reached after (` + span + `) in userspace`)
	blamed  = lazy.Compile(`^ *(` + span + `) (` + unit + `)$`)
	odd     = lazy.Compile(`^ *[-+0-9.,]+[a-z]* (?:[0-9.,]+[a-z]* )*` + unit + `$`)
	early   = lazy.Compile(`^Bootup is not yet finished`)
	chained = lazy.Compile("^([ │├└─|`-]*)(" + unit + `)(?: @(` + span + `))?(?: \+(` + span + `))?$`)
)

func (systemd) Recognizes(head []byte) bool {
	for line := range bytes.Lines(format.TrimMark(head)) {
		line = bytes.TrimRight(line, " \r\n")
		if started.Match(line) || blamed.Match(line) || early.Match(line) {
			return true
		}
		if m := chained.FindSubmatch(line); m != nil && len(m[3])+len(m[4]) > 0 {
			return true
		}
	}
	return false
}

var (
	taken  = sample.LowerRatio("time", "s", "time of a phase of the boot, or of the start of a unit")
	active = sample.LowerRatio("active-after", "s", "time from the start of userspace until a unit was active")
)

func (systemd) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "systemd-analyze"}
	r := reader{out: &out, p: format.NewProblems(name)}
	for line := range bytes.Lines(format.TrimMark(data)) {
		r.line++
		r.readLine(string(bytes.TrimRight(line, " \r\n")))
	}
	if len(out.Records) == 0 && !r.p.AnyLeftOut() {
		r.p.Add(1, "the file has no times of systemd-analyze; write it with systemd-analyze blame > FILE")
	}
	r.p.Distinguish(&out, "part")
	return r.p.Finish(out)
}

// reader reads one file.
type reader struct {
	out  *format.File
	p    *format.Problems
	line int
}

// readLine reads a line. Lines of no known form are text.
func (r *reader) readLine(line string) {
	if m := started.FindStringSubmatch(line); m != nil {
		parts := phase.FindAllStringSubmatch(m[1], 10)
		if len(parts) < strings.Count(m[1], "(") {
			r.p.LeaveOut(r.line, "%q has a time that is not written as in 1min 2.345s", m[1])
			return
		}
		for _, x := range parts {
			r.addPart("time", x[2], x[1], "")
		}
		if x := total.FindStringSubmatch(m[1]); x != nil {
			r.addPart("time", "total", x[1], "")
			r.compareTotal(parts, x[1])
		}
		return
	}
	if early.MatchString(line) {
		r.p.LeaveOut(r.line, "systemd-analyze ran before the boot had finished; run it again when systemctl "+
			"is-system-running --wait ends")
		return
	}
	if never.MatchString(line) {
		r.p.Fail(r.out, r.line, "The boot did not reach its goal, so its times may be incomplete: %s", line)
		return
	}
	if m := reached.FindStringSubmatch(line); m != nil {
		r.addPart("time", m[1], "", m[2])
		return
	}
	if m := blamed.FindStringSubmatch(line); m != nil {
		r.addPart("blame", m[2], m[1], "")
		return
	}
	if odd.MatchString(line) {
		r.p.LeaveOut(r.line, "%q has a time that is not written as in 1min 2.345s", line)
		return
	}
	if m := chained.FindStringSubmatch(line); m != nil && m[3]+m[4] != "" {
		r.addPart("critical-chain", m[2], m[4], m[3])
	}
}

// compareTotal warns if the phases do not add up to the total. Each is cut to whole milliseconds.
func (r *reader) compareTotal(phases [][]string, total string) {
	all, err := duration(total)
	sum := 0.0
	for _, x := range phases {
		v, perr := duration(x[1])
		sum, err = sum+v, errors.Join(err, perr)
	}
	if err == nil {
		r.p.Compare(r.line, "the total", all, sum, 0.001*float64(len(phases)+1), "the phases", "both numbers")
	}
}

// addPart keeps what is known of a phase or unit; "" is unknown.
func (r *reader) addPart(report, part, took, after string) {
	rec := format.Record{Line: r.line, Labels: []format.Label{
		{Name: "report", Value: report, Shown: report + ":", Setting: true}, {Name: "part", Value: part}}}
	for _, x := range []struct {
		text   string
		metric sample.Metric
	}{{took, taken}, {after, active}} {
		if x.text == "" {
			continue
		}
		v, err := duration(x.text)
		if err != nil {
			r.p.LeaveOut(r.line, "%s: %v", part, err)
			continue
		}
		rec.AddSingle(x.metric, v, true)
	}
	if len(rec.Series) > 0 {
		r.out.Records = append(r.out.Records, rec)
	}
}

var seconds = map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400,
	"month": 2629800, "y": 31557600}

// duration adds the parts of a span.
func duration(text string) (sum float64, err error) {
	for _, word := range strings.Fields(text) {
		v, err := labeled.Quantity(word, seconds)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time", text)
		}
		sum += v
	}
	return sum, nil
}
