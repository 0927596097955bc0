package fio

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/judge/format"
)

// terseLine is a line of fio --minimal (--output-format=terse) in versions 3, 4 and 5. Version
// 2, which fio writes only if asked to, does not name fio.
var terseLine = lazy.Compile(`^([345]);(fio-[^;]*);`)

// oldTerse is a line in version 2.
var oldTerse = lazy.Compile(`^2;[^;]*;\d+;\d+;(?:\d+;){6}`)

func recognizesTerse(head []byte) bool {
	for line := range bytes.Lines(format.TrimMark(head)) {
		if terseLine.Match(line) || oldTerse.Match(line) {
			return true
		}
	}
	return false
}

// The fields of a direction in terse output: KiB, KiB/s, operations per second, ms; four of the
// submission latency, four of the completion latency, percentiles of this one, four of the whole
// latency, in µs; five of the bandwidth. Version 5 adds six.
const (
	firstField     = 5 // of the first direction
	meanClat       = 10
	firstPercent   = 12
	percents       = 20
	meanLatency    = firstPercent + percents + 2
	terseFields    = 41
	terseFieldsOf5 = 47
)

// coarse is the whole number below which the loss of its decimals is more than a hundredth.
const coarse = 100

// readTerse reads terse output, which has a line for each job, and no options.
func (r *reader) readTerse(data []byte) {
	number := 0
	for line := range bytes.Lines(format.TrimMark(data)) {
		number++
		m := terseLine.FindSubmatch(line)
		switch {
		case m != nil:
			r.any = true
			r.version = string(m[2])
			j, wrong := terseJob(strings.Split(strings.TrimRight(string(line), "\r\n"), ";"))
			if wrong != "" {
				r.p.LeaveOut(number, "%s", wrong)
				continue
			}
			if j.coarse {
				r.warn("%s: Terse output has whole numbers. Rates under %d per second and percentiles under %d µs can be more "+
					"than 1 %% too low; use --output-format=json.", r.name, coarse, coarse)
			}
			r.addJob(number, j)
		case oldTerse.Match(line):
			r.p.LeaveOut(number, "version 2 of terse output does not name fio; write it with --terse-version=3")
		}
	}
	r.records()
	r.p.Distinguish(&r.out, "job")
}

// terseJob makes a job of the fields of a line.
func terseJob(f []string) (j job, wrong string) {
	width := terseFields
	directions := []**side{&j.Read, &j.Write}
	switch f[0] {
	case "4":
		directions = append(directions, &j.Trim)
	case "5":
		width, directions = terseFieldsOf5, append(directions, &j.Trim)
	}
	// The use of the CPU follows the directions. It is the first field that is a percentage.
	cpuAfter := func(n int) bool {
		at := firstField + width*n
		return at < len(f) && strings.HasSuffix(f[at], "%")
	}
	switch { // unified_rw_reporting
	case cpuAfter(1):
		directions = []**side{&j.Mixed}
	case cpuAfter(len(directions) + 1):
		directions = append(directions, &j.Mixed)
	}
	if len(f) < firstField+width*len(directions) {
		return j, fmt.Sprintf("the line has %d fields; version %s has at least %d, so it is cut off", len(f), f[0],
			firstField+width*len(directions))
	}
	group, err1 := strconv.Atoi(f[3])
	failed, err2 := strconv.Atoi(f[4])
	if err1 != nil || err2 != nil || f[2] == "" {
		return j, fmt.Sprintf("%.40q, %.40q and %.40q are not a name, a group and an error", f[2], f[3], f[4])
	}
	j.Name, j.Group, j.Error, j.terse = f[2], group, failed, true
	for i, s := range directions {
		part := f[firstField+width*i:][:width]
		if wrong = j.setTerse(s, part); wrong != "" {
			return j, wrong
		}
	}
	return j, ""
}

// setTerse reads the fields of a direction.
func (j *job) setTerse(into **side, f []string) (wrong string) {
	number := func(i int) *float64 {
		v, err := labeled.Decimal(f[i])
		if err != nil {
			wrong = fmt.Sprintf("%.40q is not a number; a name with a semicolon moves the fields", f[i])
		}
		return &v
	}
	s := &side{Bytes: number(0), KiBPerSecond: number(1), IOPS: number(2), Runtime: number(3),
		MicroLatency: &latency{Mean: number(meanLatency)}}
	j.coarse = j.coarse || *s.Bytes > 0 && min(*s.IOPS, *s.KiBPerSecond) < coarse
	s.MicroCompletion = &latency{Mean: number(meanClat), Percentiles: map[string]*float64{}}
	for _, text := range f[firstPercent : firstPercent+percents] {
		percent, micros, ok := strings.Cut(text, "%=")
		v, err := labeled.Decimal(micros)
		if !ok || err != nil {
			return fmt.Sprintf("%.40q is not a percentile; a name with a semicolon moves the fields", text)
		}
		if at, err := strconv.ParseFloat(percent, 64); err == nil && at == 99 {
			j.coarse = j.coarse || v > 0 && v < coarse
		}
		s.MicroCompletion.Percentiles[percent] = &v
	}
	*into = s
	return wrong
}

// isLater tells whether a job in terse output with the name and the group of an earlier one is
// another process of it, or the same job in a later invocation: nothing shows it.
func (r *reader) isLater(j job) bool {
	return j.terse && slices.ContainsFunc(r.jobs, func(p process) bool { return p.Name == j.Name && p.Group == j.Group })
}
