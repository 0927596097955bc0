// Package fio reads what fio --output-format=json writes.
package fio

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type fio struct{}

// New returns the format.
func New() format.Format { return fio{} }

func (fio) Doc() format.Doc {
	return format.Doc{
		Name:    "fio",
		Program: "fio --output-format=json --output=FILE",
		By:      "job",
		Labels:  []format.LabelDoc{{Name: "job", Doc: "name of the job"}},
		Order: "fio runs all jobs of a file at the same time, unless a job has stonewall, and reports one value of each. " +
			"A repetition is another file. A file has the time at which fio ended.",
		InOrder: true,
		Source:  []string{"https://fio.readthedocs.io/en/latest/fio_doc.html#json-output"},
	}
}

// body returns the lines of data from the first that begins with { to the last that
// begins with }. fio writes its notes into the same file, before and after the JSON.
func body(data []byte) (report []byte, skipped int) {
	data = format.TrimMark(data)
	for rest := data; len(rest) > 0; {
		if rest[0] != '{' {
			_, rest, _ = bytes.Cut(rest, []byte{'\n'})
			continue
		}
		skipped = bytes.Count(data[:len(data)-len(rest)], []byte{'\n'})
		if end := bytes.LastIndex(rest, []byte("\n}")); end >= 0 {
			rest = rest[:end+2]
		}
		return rest, skipped
	}
	return data, 0
}

func (fio) Recognizes(head []byte) bool {
	text, _ := body(head)
	return slices.Contains(format.Paths(text), "fio version")
}

// job is the part of a job that is read.
type job struct {
	Name    string            `json:"jobname"`
	Group   int               `json:"groupid"`
	Start   float64           `json:"job_start"` // ms; newer versions of fio
	Error   int               `json:"error"`
	Options map[string]string `json:"job options"`
	Read    side              `json:"read"`
	Write   side              `json:"write"`
	Trim    side              `json:"trim"`
	Sync    struct {
		Latency latency `json:"lat_ns"`
	} `json:"sync"`
}

// side is one direction.
type side struct {
	Bandwidth   float64 `json:"bw_bytes"`
	IOPS        float64 `json:"iops"`
	Total       float64 `json:"total_ios"`
	Runtime     float64 `json:"runtime"` // ms
	Latency     latency `json:"lat_ns"`
	Completion  latency `json:"clat_ns"`
	latencyless bool    // of several processes, whose latencies cannot be combined
}

type latency struct {
	Mean        float64            `json:"mean"`
	N           float64            `json:"N"`
	Percentiles map[string]float64 `json:"percentile"` // "99.000000" → ns
}

// p99 returns the 99th percentile in nanoseconds; 0 if there is none.
func (l latency) p99() float64 {
	for name, ns := range l.Percentiles {
		if v, err := strconv.ParseFloat(name, 64); err == nil && v == 99 && l.N > 0 {
			return ns
		}
	}
	return 0
}

func (s side) negative() bool {
	for _, v := range []float64{s.Bandwidth, s.IOPS, s.Total, s.Latency.Mean, s.Completion.p99(), s.Latency.p99()} {
		if v < 0 {
			return true
		}
	}
	return false
}

// reader reads one file.
type reader struct {
	out     format.File
	p       *format.Problems
	skipped int // lines before the JSON
	version string
	millis  float64
	seconds float64
	global  map[string]string
	last    job
	any     bool // there was a job
}

func (fio) Read(name string, data []byte) (format.File, error) {
	r := reader{p: format.NewProblems(name)}
	text, skipped := body(data)
	r.skipped = skipped
	r.p.Skip(skipped)
	d, err := format.OpenDocument(text)
	if err != nil {
		if bytes.Count(text, []byte(`"fio version"`)) > 1 {
			err = format.AtLine(1, "the file has several reports; run fio without --status-interval, and with another "+
				"--output each time")
		}
		r.p.AddError(err)
		return r.out, r.p.Err()
	}
	err = d.Object("the report", func(key string) error {
		switch key {
		case "fio version":
			return d.Value(&r.version)
		case "timestamp_ms":
			return d.Value(&r.millis)
		case "timestamp":
			return d.Value(&r.seconds)
		case "global options":
			return d.Value(&r.global)
		case "jobs":
			return d.Array(key, func() error { return r.job(d) })
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
	r.fill()
	return r.out, r.p.Err()
}

func (r *reader) job(d *format.Document) error {
	line := d.Line()
	var j job
	if err := d.Value(&j); err != nil {
		return err
	}
	switch {
	case j.Name == "":
		r.p.Add(line, "the job has no jobname")
		return nil
	case j.Read.negative() || j.Write.negative() || j.Trim.negative() || j.Sync.Latency.Mean < 0:
		r.p.Add(line, "job %q has a negative value", j.Name)
		return nil
	}
	if r.any && j.cloneOf(r.last) {
		r.merge(j)
		return nil
	}
	turn := 0
	if n := len(r.out.Records); n > 0 {
		turn = r.out.Records[n-1].Turn
		if j.waits(r.last) {
			turn++
		}
	}
	r.last, r.any = j, true
	r.out.Records = append(r.out.Records, format.Record{Line: line + r.skipped, Turn: turn,
		Labels: []format.Label{{Name: "job", Value: j.Name}}, Facts: j.Options})
	r.put()
	return nil
}

// waits reports whether a job started when the one before had ended. Jobs of one group
// run at the same time. Older versions do not say when a job started; there,
// a new group counts as the effect of stonewall.
func (j job) waits(before job) bool {
	if j.Start > 0 && before.Start > 0 {
		return j.Start >= before.Start+before.runtime()
	}
	return j.Group != before.Group
}

// runtime is how long a job ran, in milliseconds.
func (j job) runtime() float64 { return max(j.Read.Runtime, j.Write.Runtime, j.Trim.Runtime) }

// cloneOf reports whether j is another process of the job before: fio lists each
// process of a job with numjobs, unless it has group_reporting.
func (j job) cloneOf(before job) bool {
	n := j.Options["numjobs"]
	return j.Name == before.Name && j.Group == before.Group && n == before.Options["numjobs"] && n != "1" && n != ""
}

// merge adds another process of the last job to it.
func (r *reader) merge(j job) {
	if !r.last.Read.latencyless {
		r.out.Warnings = append(r.out.Warnings, fmt.Sprintf("Job %q ran as several processes without group_reporting, so "+
			"its rates are sums and its latencies are left out.", j.Name))
	}
	for _, s := range []struct{ sum, more *side }{{&r.last.Read, &j.Read}, {&r.last.Write, &j.Write},
		{&r.last.Trim, &j.Trim}} {
		s.sum.Bandwidth += s.more.Bandwidth
		s.sum.IOPS += s.more.IOPS
		s.sum.Total += s.more.Total
		s.sum.latencyless = true
	}
	r.last.Sync.Latency.N = 0
	if j.Error != 0 {
		r.last.Error = j.Error
	}
	r.put()
}

// put writes the last job into the last record.
func (r *reader) put() {
	rec, j := &r.out.Records[len(r.out.Records)-1], r.last
	rec.Series, rec.Failed, rec.Reason = nil, 0, ""
	if j.Error != 0 {
		rec.Failed, rec.Reason = 1, fmt.Sprintf("fio ended the job with error %d", j.Error)
		return
	}
	add := func(m sample.Metric, v float64) {
		rec.Series = append(rec.Series, format.Series{Metric: m, Values: []float64{v}})
	}
	for _, s := range []struct {
		name string
		side
	}{{"read", j.Read}, {"write", j.Write}, {"trim", j.Trim}} {
		switch {
		case s.Total == 0:
			continue
		case s.IOPS == 0:
			rec.Series, rec.Failed = nil, 1
			rec.Reason = "fio measured no rate: the job was killed, or ended within a millisecond"
			return
		}
		add(sample.HigherRatio(s.name+"-throughput", "op/s", "operations per second"), s.IOPS)
		add(sample.HigherRatio(s.name+"-bandwidth", "B/s", "bytes per second"), s.Bandwidth)
		if s.latencyless {
			continue
		}
		if s.Latency.N > 0 {
			add(sample.LowerRatio(s.name+"-latency-mean", "s", "mean latency of an operation"), s.Latency.Mean/1e9)
		}
		if ns := max(s.Completion.p99(), s.Latency.p99()); ns > 0 {
			add(sample.LowerRatio(s.name+"-latency-p99", "s", "99th percentile of the latency"), ns/1e9)
		}
	}
	if l := j.Sync.Latency; l.N > 0 {
		add(sample.LowerRatio("sync-latency-mean", "s", "mean latency of a sync"), l.Mean/1e9)
	}
	if len(rec.Series) == 0 {
		rec.Failed, rec.Reason = 1, "fio counted no operation"
	}
}

// fill gives the records what holds for the whole file.
func (r *reader) fill() {
	r.out.Program = r.version
	var when time.Time
	switch {
	case r.millis > 0 && r.millis < 1e15:
		when = time.UnixMilli(int64(r.millis)).UTC()
	case r.seconds > 0 && r.seconds < 1e12:
		when = time.Unix(int64(r.seconds), 0).UTC()
	}
	for i := range r.out.Records {
		rec := &r.out.Records[i]
		rec.When = when
		facts := map[string]string{"program": r.version}
		for k, v := range r.global {
			facts["option "+k] = v
		}
		for k, v := range rec.Facts {
			if k != "name" { // it is the label
				facts["option "+k] = v
			}
		}
		rec.Facts = facts
	}
}
