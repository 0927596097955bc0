// Package fio reads what fio --output-format=json writes, since version 2.1, and the terse
// output of fio --minimal.
//
// What the versions write is in their stat.c: total_ios since 2.1.14, options since
// 2.3, latencies in ns (lat_ns instead of lat) since 2.99, bw_bytes since 3.2, the
// number of samples of a latency since 3.18. Before that, bw is in KiB/s and latencies
// are in µs.
package fio

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type fio struct{}

// New returns the format.
func New() format.Format { return fio{} }

func (fio) Doc() format.Doc {
	return format.Doc{
		Name:    "fio",
		Program: "fio --output-format=json --output=FILE, or fio --minimal --output=FILE",
		By:      "job",
		Labels:  []format.LabelDoc{{Name: "job", Doc: "name of the job"}},
		Parts:   "host (of fio --client), and options of fio, as \"option bs\"",
		Order: "fio runs all jobs of a file at the same time, unless a job has stonewall, and reports one value of each " +
			"job. Repetitions are therefore separate files. A file contains the time at which fio ended.",
		InOrder: true,
		Summaries: []format.Summary{
			{What: "the text of fio", Head: lazy.Compile(`(?m)^\S.*: \(g=\d+\): rw=|^ +(?:read|write|trim) *: IOPS=\S+, BW=`)},
		},
		Source: []string{"https://fio.readthedocs.io/en/latest/fio_doc.html#json-output",
			"https://fio.readthedocs.io/en/latest/fio_doc.html#terse-output"},
	}
}

func (fio) Recognizes(head []byte) bool {
	return isReport(head) || recognizesTerse(head)
}

func isReport(data []byte) bool {
	return slices.Contains(format.Paths(format.TrimMark(data)), "fio version")
}

// job is the part of a job that is read.
type job struct {
	Name    string         `json:"jobname"`
	Group   int            `json:"groupid"`
	terse   bool           // of terse output
	coarse  bool           // has few digits
	nulls   []string       // members that are not numbers
	Start   *float64       `json:"job_start"` // ms; since 3.36
	Error   int            `json:"error"`
	Options map[string]any `json:"job options"`
	Host    string         `json:"hostname"` // with --client
	Port    int            `json:"port"`
	Read    *side          `json:"read"`
	Write   *side          `json:"write"`
	Trim    *side          `json:"trim"`
	Mixed   *side          `json:"mixed"` // with unified_rw_reporting
	Sync    *struct {
		Latency *latency `json:"lat_ns"`
	} `json:"sync"`
	Steady *struct {
		Wanted   string `json:"ss"`
		Attained int    `json:"attained"`
	} `json:"steadystate"`
}

// direction is one direction of a job, or all of them together.
type direction struct {
	name string
	*side
}

func (j job) directions() []direction {
	return []direction{{"read", j.Read}, {"write", j.Write}, {"trim", j.Trim}, {"mixed", j.Mixed}}
}

// side is what fio reports of one direction.
type side struct {
	BytesPerSecond *float64 `json:"bw_bytes"` // since 3.2
	Short          *float64 `json:"short_ios"`
	Dropped        *float64 `json:"drop_ios"`
	KiBPerSecond   *float64 `json:"bw"`
	IOPS           *float64 `json:"iops"`
	Total          *float64 `json:"total_ios"` // since 2.1.14
	Bytes          *float64 `json:"io_bytes"`  // KiB before 2.99
	Runtime        *float64 `json:"runtime"`   // ms
	Latency        *latency `json:"lat_ns"`
	Completion     *latency `json:"clat_ns"`
	// Before 2.99, latencies are in microseconds.
	MicroLatency    *latency `json:"lat"`
	MicroCompletion *latency `json:"clat"`
}

type latency struct {
	Max         *float64            `json:"max"`
	Mean        *float64            `json:"mean"`
	N           *float64            `json:"N"`          // since 3.18
	Percentiles map[string]*float64 `json:"percentile"` // "99.000000" → latency
}

// meanOrNil returns the mean; nil if nothing was measured.
func (l *latency) meanOrNil() *float64 {
	if l == nil || l.Mean == nil || *l.Mean == 0 || l.N != nil && *l.N == 0 {
		return nil
	}
	return l.Mean
}

// p99 returns the 99th percentile; nil if there is none.
func (l *latency) p99() *float64 {
	if l == nil || l.N != nil && *l.N == 0 {
		return nil
	}
	for name, v := range l.Percentiles {
		if at, err := strconv.ParseFloat(name, 64); err == nil && at == 99 && v != nil && *v != 0 {
			return v
		}
	}
	return nil
}

// bandwidth is in bytes per second; nil if the file does not give it.
func (s *side) bandwidth() *float64 {
	if s.BytesPerSecond != nil || s.KiBPerSecond == nil {
		return s.BytesPerSecond
	}
	v := *s.KiBPerSecond * 1024
	return &v
}

// meanLatency and p99 are in seconds; nil if the file does not give them.
func (s *side) meanLatency() *float64 {
	return cmp.Or(scaledOrNil(s.Latency.meanOrNil(), 1e-9), scaledOrNil(s.MicroLatency.meanOrNil(), 1e-6))
}

// totalP99 is the 99th percentile of the time from submission to completion, which fio reports with lat_percentiles.
func (s *side) totalP99() *float64 {
	return cmp.Or(scaledOrNil(s.Latency.p99(), 1e-9), scaledOrNil(s.MicroLatency.p99(), 1e-6))
}

// p99 is that of the time from the end of the submission to completion.
func (s *side) p99() *float64 {
	return cmp.Or(scaledOrNil(s.Completion.p99(), 1e-9), scaledOrNil(s.MicroCompletion.p99(), 1e-6))
}

func scaledOrNil(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	x := *v * by
	return &x
}

// wasUsed reports whether the job did something in this direction.
func (s *side) wasUsed() bool {
	if s == nil {
		return false
	}
	if s.Total != nil {
		return *s.Total != 0
	}
	return slices.ContainsFunc([]*float64{s.Bytes, s.IOPS, s.KiBPerSecond, s.BytesPerSecond}, func(v *float64) bool {
		return v != nil && *v != 0
	})
}

func (s *side) negative() bool {
	if s == nil {
		return false
	}
	return slices.ContainsFunc([]*float64{s.bandwidth(), s.IOPS, s.Total, s.meanLatency(), s.p99(),
		s.totalP99()},
		func(v *float64) bool { return v != nil && *v < 0 })
}

// reader reads one file.
type reader struct {
	out     format.File
	name    string // of the file
	p       *format.Problems
	version string
	millis  float64
	seconds float64
	global  map[string]any
	last    job // the newest one that is not a process of an earlier one
	jobs    []process
	any     bool // there was a job
	// lost are the names of jobs that were left out; "" for one without a name.
	lost map[string]bool
}

// process is a job of a record, with the sums of its processes.
type process struct {
	job
	line, record int
	processes    int
}

func (fio) Read(name string, data []byte) (format.File, error) {
	r := reader{name: name, p: format.NewProblems(name), lost: map[string]bool{}}
	if !isReport(data) && recognizesTerse(data) {
		r.readTerse(data)
		return r.p.Finish(r.out)
	}
	d := r.p.OpenDocument(data)
	if err := d.Err(); err != nil {
		if bytes.Count(data, []byte(`"fio version"`)) > 1 {
			err = format.AtLine(1, "the file has several reports; run fio without --status-interval, and with another "+
				"--output each time")
		}
		r.p.AddError(err)
		return r.out, r.p.Err()
	}
	err := d.Object("the report", func(key string) error {
		switch key {
		case "fio version":
			return d.Value(&r.version)
		case "timestamp_ms":
			return d.Value(&r.millis)
		case "timestamp":
			return d.Value(&r.seconds)
		case "global options":
			r.global = map[string]any{}
			return d.Value(&r.global)
		case "jobs", "client_stats":
			return d.Array(key, func() error {
				r.any = true
				line := d.Line()
				var j job
				if err := d.Value(&j); err != nil {
					r.lost[j.Name] = true // Value reads the other members
					r.p.LeaveOutError(err)
					return nil
				}
				j.nulls = d.Nulls()
				r.addJob(line, j)
				return nil
			})
		}
		return d.Skip()
	})
	switch {
	case err != nil:
		r.p.AddError(err)
	case r.version == "":
		r.p.Add(1, "the file has no \"fio version\"; write it with fio --output-format=json")
	case !r.any:
		r.p.Add(1, "the file has no jobs")
	}
	r.records()
	r.p.Distinguish(&r.out, "job")
	return r.p.Finish(r.out)
}

// addJob keeps a job, or adds it to the job of which it is another process.
func (r *reader) addJob(line int, j job) {
	wrong := ""
	switch {
	case j.Name == "":
		wrong = "the job has no jobname"
	case !slices.ContainsFunc(j.directions(), func(d direction) bool { return d.side != nil }):
		wrong = fmt.Sprintf("job %q has no read, no write, no trim and no mixed", j.Name)
	case slices.ContainsFunc(j.directions(), func(d direction) bool { return d.negative() }):
		wrong = fmt.Sprintf("job %q has a negative value", j.Name)
	}
	if wrong != "" {
		r.lost[j.Name] = true
		r.p.LeaveOut(line, "%s", wrong)
		return
	}
	if j.Name == allClients {
		j.Host = ""
	}
	r.warnAbout(line, j)
	for i := len(r.jobs) - 1; i >= 0 && !j.terse; i-- {
		if p := &r.jobs[i]; p.Name == j.Name && p.Group == j.Group && p.Host == j.Host && p.Port == j.Port {
			if n := r.processes(p.job); n != 0 && p.processes >= n || r.processes(j) != r.processes(p.job) {
				break
			}
			p.mergeProcess(j)
			return
		}
	}
	turn := 0
	if n := len(r.jobs); n > 0 {
		turn = r.out.Records[n-1].Turn
		if j.startsAfter(r.last) || r.isLater(j) {
			turn++
		}
	}
	r.last = j
	r.jobs = append(r.jobs, process{job: j, line: line, record: len(r.out.Records), processes: 1})
	labels := []format.Label{{Name: "job", Value: j.Name}}
	if j.Host != "" {
		labels = append(labels, format.Label{Name: "host", Value: j.serverOf(), Setting: true, Place: true})
	}
	r.out.Records = append(r.out.Records, format.Record{Line: line, Turn: turn, Labels: labels})
}

// warnAbout warns of operations that moved less than they should, and of a job that ended before its rate was steady.
func (r *reader) warnAbout(line int, j job) {
	for _, s := range j.directions() {
		if s.side == nil {
			continue
		}
		if !j.terse {
			r.compareRates(line, j, s)
			r.compareLatencies(line, j, s)
		}
		if s.Short != nil && *s.Short > 0 {
			r.p.Warn(line, "Operations of job %q (%s) that moved fewer bytes than asked for: %.0f.", j.Name, s.name, *s.Short)
		}
		if s.Dropped != nil && *s.Dropped > 0 {
			r.p.Warn(line, "Operations of job %q (%s) that were dropped: %.0f.", j.Name, s.name, *s.Dropped)
		}
		if s.wasUsed() && s.KiBPerSecond != nil && slices.Contains(j.nulls, s.name+".bw_bytes") {
			r.p.Warn(line, "bw_bytes of job %q (%s) is not a number; bakeoff uses bw, which is in whole KiB/s.", j.Name, s.name)
		}
	}
	if j.Steady != nil && j.Steady.Attained == 0 {
		r.p.Warn(line, "Job %q did not reach its steady state (%s), so its numbers do not describe that state.", j.Name,
			j.Steady.Wanted)
	}
}

// maxRateError is how far a rate may lie from the quotient of its sum and the time, which is in
// whole milliseconds; fio divides by that time, too.
const maxRateError = 0.05

// compareRates warns of rates that contradict the sums and the time beside them.
func (r *reader) compareRates(line int, j job, s direction) {
	for _, x := range []struct {
		name      string
		rate, sum *float64
	}{{"iops", s.IOPS, s.Total}, {"bw_bytes", s.BytesPerSecond, s.Bytes}} {
		if x.rate == nil || x.sum == nil || s.Runtime == nil || !(*x.sum > 0 && *s.Runtime > 0) {
			continue
		}
		if want := *x.sum * 1000 / *s.Runtime; math.Abs(*x.rate-want) > maxRateError*want {
			r.p.Warn(line, "%s of job %q (%s) is %.6g, but the sum divided by the runtime is %.6g. The file was changed, or "+
				"fio has an error; bakeoff uses %s.", x.name, j.Name, s.name, *x.rate, want, x.name)
		}
	}
}

// maxBucket is how far a percentile may exceed the maximum: fio takes it from a histogram.
const maxBucket = 0.03

// compareLatencies warns of a mean or a percentile that exceeds the maximum, and of a bandwidth that is stated twice.
func (r *reader) compareLatencies(line int, j job, s direction) {
	for _, l := range []struct {
		name string
		*latency
	}{{"lat_ns", s.Latency}, {"clat_ns", s.Completion}, {"lat", s.MicroLatency}, {"clat", s.MicroCompletion}} {
		if l.latency == nil || l.Max == nil || *l.Max <= 0 {
			continue
		}
		most := *l.Max*(1+maxBucket) + 1 // in whole units
		for name, v := range l.values() {
			if v != nil && *v > most {
				r.p.Warn(line, "%s of %s of job %q (%s) is %.6g, and the maximum is %.6g. The file was changed, or fio has an "+
					"error.", name, l.name, j.Name, s.name, *v, *l.Max)
				break
			}
		}
	}
	if s.BytesPerSecond != nil && s.KiBPerSecond != nil {
		r.p.Compare(line, fmt.Sprintf("bw_bytes of job %q (%s)", j.Name, s.name), *s.BytesPerSecond, *s.KiBPerSecond*1024,
			1024+0.01**s.BytesPerSecond, "its bw in KiB/s", "bw_bytes")
	}
}

// values are the mean and the percentiles, by name.
func (l *latency) values() iter.Seq2[string, *float64] {
	return func(yield func(string, *float64) bool) {
		if !yield("the mean", l.Mean) {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(l.Percentiles)) {
			if !yield("percentile "+name, l.Percentiles[name]) {
				return
			}
		}
	}
}

// allClients is the name of the sum that fio --client writes after the jobs.
const allClients = "All clients"

// defaultPort is that of fio --server.
const defaultPort = 8765

// serverOf is the server of a job, with its port if it is not the usual one.
func (j job) serverOf() string {
	if j.Port != 0 && j.Port != defaultPort {
		return net.JoinHostPort(j.Host, strconv.Itoa(j.Port))
	}
	return j.Host
}

// startsAfter reports whether a job started when the one before had ended. Jobs of one group
// run at the same time. Older versions do not say when a job started; there,
// a new group counts as the effect of stonewall.
func (j job) startsAfter(before job) bool {
	if j.Start != nil && *j.Start > 0 && before.Start != nil && *before.Start > 0 {
		return *j.Start >= *before.Start+before.runtime()
	}
	return j.Group != before.Group
}

// runtime is how long a job ran, in milliseconds.
func (j job) runtime() (ms float64) {
	for _, s := range j.directions() {
		if s.side != nil && s.Runtime != nil {
			ms = max(ms, *s.Runtime)
		}
	}
	return ms
}

// processes is the number of processes of a job, which fio lists one by one unless it
// has group_reporting; 0 if it is unknown. A job has the options that are before the
// first job, unless it has its own. Before version 2.3, fio does not write them.
func (r *reader) processes(j job) int {
	n, ok := j.Options["numjobs"]
	if !ok {
		n, ok = r.global["numjobs"]
	}
	switch v, err := strconv.Atoi(fmt.Sprint(n)); {
	case ok && err == nil && v > 0:
		return v
	case ok || r.withoutOptions():
		return 0
	}
	return 1
}

// lostProcesses reports whether the file lacks results of processes of a job. One result may be that
// of all of them: fio does not write group_reporting without a value.
func (r *reader) lostProcesses(j process) bool {
	return j.processes < r.processes(j.job) && (j.processes > 1 || r.lost[j.Name] || r.lost[""])
}

// oldVersion is a version that does not write options.
var oldVersion = lazy.Compile(`^fio[- ]2\.[0-2]\b`)

func (r *reader) withoutOptions() bool { return oldVersion.MatchString(r.version) }

// mergeProcess adds another process.
func (p *process) mergeProcess(j job) {
	p.processes++
	for _, s := range []struct{ sum, more **side }{{&p.Read, &j.Read}, {&p.Write, &j.Write}, {&p.Trim, &j.Trim},
		{&p.Mixed, &j.Mixed}} {
		switch {
		case *s.more == nil:
		case *s.sum == nil:
			*s.sum = *s.more
		default:
			a, b := *s.sum, *s.more
			*s.sum = &side{BytesPerSecond: addSides(a.bandwidth(), b.bandwidth(), a, b), IOPS: addSides(a.IOPS, b.IOPS, a, b),
				Total: addSides(a.Total, b.Total, a, b), Bytes: addSides(a.Bytes, b.Bytes, a, b)}
		}
	}
	if j.Error != 0 {
		p.Error = j.Error
	}
}

// addSides adds what two sides have; a side that was not used may lack it.
func addSides(x, y *float64, a, b *side) *float64 {
	switch {
	case !a.wasUsed():
		return y
	case !b.wasUsed():
		return x
	case x == nil || y == nil:
		return nil
	}
	sum := *x + *y
	return &sum
}

// records fills the records with the values of their jobs, and with what holds for the
// whole file.
func (r *reader) records() {
	r.out.Program = r.version
	var when time.Time
	switch {
	case r.millis > 0 && r.millis < 1e15:
		when = time.UnixMilli(int64(r.millis)).UTC()
	case r.seconds > 0 && r.seconds < 1e12:
		when = time.Unix(int64(r.seconds), 0).UTC()
	}
	var out []format.Record
	for _, j := range r.jobs {
		rec := r.out.Records[j.record]
		rec.When = when
		rec.Facts = map[string]string{"program": r.version}
		for k, v := range r.global {
			rec.Facts[format.OptionFact+k] = fmt.Sprint(v)
		}
		for k, v := range j.Options {
			if k != "name" { // it is the label
				rec.Facts[format.OptionFact+k] = fmt.Sprint(v)
			}
		}
		if r.setValues(&rec, j) {
			out = append(out, rec)
		}
	}
	r.out.Records = out
}

// warn adds a warning, once.
func (r *reader) warn(text string, args ...any) {
	if w := fmt.Sprintf(text, args...); !slices.Contains(r.out.Warnings, w) {
		r.out.Warnings = append(r.out.Warnings, w)
	}
}

// nullLatency is the path of a latency: of which direction, and which statistic.
var nullLatency = lazy.Compile(`^(\w+)\.(c?)lat(?:_ns)?\.(?:(mean)|percentile\.99(?:\.0+)?)$`)

// addLatency adds a latency to a record, or reports that the file has no number there.
func (r *reader) addLatency(rec *format.Record, j process, m sample.Metric, v *float64) {
	if v != nil {
		rec.Series = append(rec.Series, format.Single(m, *v))
		return
	}
	if slices.ContainsFunc(j.nulls, func(path string) bool {
		parts := nullLatency.FindStringSubmatch(path)
		switch {
		case parts == nil:
			return false
		case parts[3] != "":
			return m.Name == parts[1]+"-latency-mean"
		case parts[2] == "":
			return m.Name == parts[1]+"-total-latency-p99"
		}
		return m.Name == parts[1]+"-latency-p99"
	}) {
		r.p.LeaveOut(j.line, "%s of job %q is not a number", m.Name, j.Name)
	}
}

// setValues puts the values of a job into its record; false if the file lacks one that is
// needed.
func (r *reader) setValues(rec *format.Record, j process) bool {
	switch {
	case j.processes > 1 && r.processes(j.job) == 0:
		r.warn("The file has %d results of the job %q and does not say whether "+
			"they are processes of one job. bakeoff assumes that they are: it adds up their rates and leaves out their "+
			"latencies.", j.processes,
			j.Name)
	case j.processes > 1:
		r.warn("Job %q ran as several processes without group_reporting, so its rates are sums and its latencies are "+
			"left out.", j.Name)
	}
	if r.lostProcesses(j) {
		r.p.LeaveOut(j.line, "job %q has %d of its %d processes, so its sums are wrong", j.Name, j.processes,
			r.processes(j.job))
		return false
	}
	if j.Error != 0 {
		rec.Failed, rec.Reason = 1, fmt.Sprintf("fio ended the job with error %d", j.Error)
		return true
	}
	add := func(m sample.Metric, v *float64) {
		if v != nil {
			rec.Series = append(rec.Series, format.Series{Metric: m, Values: []float64{*v}})
		}
	}
	lost := false // a rate
	for _, s := range j.directions() {
		if !s.wasUsed() {
			continue
		}
		bandwidth := s.bandwidth()
		switch {
		case s.IOPS == nil:
			r.p.LeaveOut(j.line, "%s of job %q has no iops, or no number there", s.name, j.Name)
			lost = true
			if bandwidth != nil && *bandwidth == 0 {
				continue
			}
		case *s.IOPS == 0:
			rec.Series, rec.Failed = nil, 1
			rec.Reason = "fio measured no rate: the job was killed, or ended within a millisecond"
			return true
		case bandwidth == nil:
			r.p.LeaveOut(j.line, "%s of job %q has no bandwidth, neither bw_bytes nor bw", s.name, j.Name)
		}
		add(sample.HigherRatio(s.name+"-throughput", "op/s", "operations per second"), s.IOPS)
		add(sample.HigherRatio(s.name+"-bandwidth", "B/s", "bytes per second"), bandwidth)
		if j.processes == 1 {
			for _, l := range []struct {
				name, doc string
				value     *float64
			}{
				{"latency-mean", "mean latency of an operation", s.meanLatency()},
				{"latency-p99", "99th percentile of the completion latency", s.p99()},
				{"total-latency-p99", "99th percentile of the latency with the time of the submission", s.totalP99()},
			} {
				r.addLatency(rec, j, sample.LowerRatio(s.name+"-"+l.name, "s", l.doc), l.value)
			}
		}
	}
	if j.Sync != nil && j.processes == 1 {
		r.addLatency(rec, j, sample.LowerRatio("sync-latency-mean", "s", "mean latency of a sync"),
			scaledOrNil(j.Sync.Latency.meanOrNil(), 1e-9))
	}
	if len(rec.Series) == 0 && !lost {
		rec.Failed, rec.Reason = 1, "fio counted no operation"
	}
	return len(rec.Series) > 0 || !lost
}
