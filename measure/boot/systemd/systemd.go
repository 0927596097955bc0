// Package systemd is the source of what systemd knows of its units.
//
// `systemctl show` prints the properties of the manager, and `systemctl show '*'` those of
// all units that are loaded: blocks of lines KEY=VALUE, with an empty line between them. The
// properties whose names end in TimestampMonotonic are microseconds of CLOCK_MONOTONIC;
// 0 means never. `systemd-analyze plot` makes its picture of the same properties; its
// option --json came with systemd 253 only.
//
// Source: org.freedesktop.systemd1(5).
package systemd

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/measure/boot"
)

// New returns the source.
func New() boot.Source { return source{} }

type source struct{}

const name = "systemd"

// Doc implements boot.Source.
func (source) Doc() boot.SourceDoc {
	return boot.SourceDoc{
		Name:  name,
		Reads: "the properties of systemd and its units",
		Get:   "(systemctl show; echo; systemctl show '*') > FILE",
		Says: "The span systemd runs from the start of systemd to the end of the startup, and has its own phases below it. " +
			"Every unit has a track. The span of a unit begins when systemd begins to start it. It ends when the unit is " +
			"active or, if it never became active, when it ended. A target is a mark. Other units whose start took no time " +
			"are left out, and so are units that began after the end of the startup.",
	}
}

// The properties that are read.
const (
	suffix    = "TimestampMonotonic"
	userspace = "Userspace" + suffix
	finish    = "Finish" + suffix
	firmware  = "Firmware" + suffix
	loader    = "Loader" + suffix
	initrd    = "InitRD" + suffix

	inactiveExit  = "InactiveExit" + suffix
	activeEnter   = "ActiveEnter" + suffix
	inactiveEnter = "InactiveEnter" + suffix
)

// Recognizes implements boot.Source.
func (source) Recognizes(head []byte) bool {
	return bytes.Contains(head, []byte(userspace+"=")) || bytes.Contains(head, []byte("\n"+inactiveExit+"="))
}

// block are the properties of a unit, or of the manager.
type block struct {
	line   int // the first
	id     string
	micros map[string]int64
}

// Read implements boot.Source.
func (source) Read(file string, data []byte) (bootmodel.Recording, error) {
	if err := boot.CheckSize(file, data); err != nil {
		return bootmodel.Recording{}, err
	}
	blocks, skipped := parseBlocks(data)
	var manager *block
	var units []block
	for i, b := range blocks {
		switch _, ok := b.micros[userspace]; {
		case ok && manager != nil:
			return bootmodel.Recording{}, fault.New(fault.Invalid, "%sthe properties of a second systemd begin "+
				"here; cut the file to those of one",
				boot.At(file, b.line))
		case ok:
			manager = &blocks[i]
		default:
			units = append(units, b)
		}
	}
	if len(blocks) == 0 && skipped.Count > 0 {
		return bootmodel.Recording{}, fault.New(fault.Invalid, "%s%s", boot.At(file, skipped.Line), skipped.Why)
	}
	if manager == nil || manager.micros[userspace] == 0 {
		return bootmodel.Recording{}, fault.New(fault.Invalid, "%sthe file does not say when systemd started; run systemctl "+
			"show "+
			"without a unit first", boot.At(file, 1))
	}
	r := recordingOf(*manager, units)
	r.Notes = append(r.Notes, skipped.Notes(name)...)
	return r, nil
}

// parseBlocks reads blocks. It keeps the identifiers and the times.
func parseBlocks(data []byte) (blocks []block, skipped boot.Skipped) {
	b := block{micros: map[string]int64{}}
	number := 0
	end := func() {
		if b.id != "" || len(b.micros) > 0 {
			blocks = append(blocks, b)
		}
		b = block{micros: map[string]int64{}}
	}
	for line := range bytes.Lines(data) {
		number++
		text := string(bytes.Trim(line, "\r\n"))
		if text == "" {
			end()
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok || len(line) > boot.MaxLine || strings.Trim(key, letters) != "" {
			skipped.Add(number, "the line is not KEY=VALUE; copy what systemctl show prints")
			continue
		}
		b.line = cmp.Or(b.line, number)
		switch {
		case key == "Id":
			b.id = boot.ValidText(value)
		case strings.HasSuffix(key, suffix):
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				skipped.Add(number, fmt.Sprintf("%s is %q, which is not a number of microseconds; copy what systemctl show "+
					"prints", key, safetext.Clip(boot.ValidText(value), 40)))
				continue
			}
			if n >= 1<<60 { // the greatest number means never, too
				n = 0
			}
			b.micros[key] = int64(n)
		}
	}
	end()
	return blocks, skipped
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// phases are what systemd does itself before it starts units.
var phases = []struct{ title, start, end string }{
	{"set up security", "SecurityStart", "SecurityFinish"},
	{"run generators", "GeneratorsStart", "GeneratorsFinish"},
	{"load units", "UnitsLoadStart", "UnitsLoadFinish"},
}

func recordingOf(m block, units []block) bootmodel.Recording {
	r := bootmodel.Recording{
		Schema: bootmodel.Schema, System: "linux",
		Clocks: []bootmodel.Clock{{Name: "monotonic", Source: name, Hz: 1e6, UncertaintyNS: bootmodel.Exact()}},
		Tracks: []bootmodel.Track{{Name: name, ID: "1", Parent: -1, Kind: bootmodel.KindProcess}},
		Spans:  []bootmodel.Span{{Name: name, Parent: -1, Start: m.micros[userspace]}},
		Marks:  []bootmodel.Mark{},
	}
	end := m.micros[finish]
	open := end < m.micros[userspace]
	if open {
		end = m.micros[userspace]
		for _, u := range units {
			end = max(end, u.micros[inactiveExit], cmp.Or(u.micros[activeEnter], u.micros[inactiveEnter]))
		}
		note := bootmodel.Note{Source: name, Text: "The startup had not finished when the properties were read."}
		if _, ok := m.micros[finish]; !ok {
			note = bootmodel.Note{Source: name, Lost: true, Text: "The file does not say when the startup finished."}
		}
		r.Notes = append(r.Notes, note)
	}
	r.Spans[0].End, r.Spans[0].Open = end, open
	addPhases(&r, m)
	addMarks(&r, m, open)
	slices.SortStableFunc(units, func(a, b block) int {
		return cmp.Compare(a.micros[inactiveExit],
			b.micros[inactiveExit])
	})
	late, unknown, cut := 0, 0, 0
	for _, u := range units {
		if u.micros[inactiveExit] > end {
			late++
			continue
		}
		if _, ok := u.micros[activeEnter]; !ok && u.micros[inactiveExit] > 0 {
			unknown++
			continue
		}
		if addUnit(&r, u, end) {
			cut++
		}
	}
	if unknown > 0 {
		r.Notes = append(r.Notes, bootmodel.Note{Source: name, Lost: true,
			Text: fmt.Sprintf("The file does not say when %d of "+
				"the units were active; they were left out.", unknown)})
	}
	if cut > 0 {
		r.Notes = append(r.Notes, bootmodel.Note{Source: name,
			Text: fmt.Sprintf("%d units became active or ended only after the startup; bakeoff ends their spans with the "+
				"startup.", cut)})
	}
	if late > 0 {
		r.Notes = append(r.Notes, bootmodel.Note{Source: name,
			Text: fmt.Sprintf("%d units began after the end of the startup; they were left out.", late)})
	}
	bootmodel.SortMarks(&r)
	return r
}

// addPhases adds the phases of systemd that were recorded and follow each other.
func addPhases(r *bootmodel.Recording, m block) {
	free := r.Spans[0].Start
	for _, p := range phases {
		from, to := m.micros[p.start+suffix], m.micros[p.end+suffix]
		if from < free || to < from || to > r.Spans[0].End {
			continue
		}
		r.Spans = append(r.Spans, bootmodel.Span{Name: p.title, Start: from, End: to})
		free = to
	}
}

// addMarks adds the moments of the manager. Firmware and loader are as many microseconds
// before the kernel as their properties say.
func addMarks(r *bootmodel.Recording, m block, open bool) {
	mark := func(title string, at int64, how string) {
		r.Marks = append(r.Marks, bootmodel.Mark{Name: title, At: at, UncertaintyNS: &micro, How: how})
	}
	if t := m.micros[firmware]; t > 0 {
		mark(MarkFirmwareStart, -t, "the firmware's record, as systemd read it")
	}
	if t := m.micros[loader]; t > 0 {
		mark(bootmodel.MarkFirmware, -t, "the boot loader's record, as systemd read it")
	}
	if t := m.micros[initrd]; t > 0 {
		mark("initramfs started", t, "systemd's record")
	}
	mark("systemd started", m.micros[userspace], "systemd's record")
	if !open {
		mark(bootmodel.MarkFinished, m.micros[finish], "systemd's record: no job of the startup was left")
	}
}

// MarkFirmwareStart is when the firmware began to keep time.
const MarkFirmwareStart = "firmware start"

// micro is the error of the times: they are whole microseconds.
var micro = 1000.0

// addUnit adds a unit that was started before end. It reports whether it cut the span at end: systemd
// overwrites times when it starts a unit again, so that the two may be of different starts.
func addUnit(r *bootmodel.Recording, u block, end int64) (cut bool) {
	start := u.micros[inactiveExit]
	if start == 0 || u.id == "" {
		return false
	}
	s := bootmodel.Span{Name: u.id, Parent: -1, Track: len(r.Tracks), Start: start}
	switch active, gone := u.micros[activeEnter], u.micros[inactiveEnter]; {
	case active == start:
		r.Marks = append(r.Marks, bootmodel.Mark{Name: u.id, At: start, UncertaintyNS: &micro,
			How: "the unit was active at " +
				"once"})
		return false
	case active > start:
		s.End = active
	case gone >= start:
		s.End = gone
	default:
		s.End, s.Open = max(end, start), true
	}
	if cut = s.End > end; cut {
		s.End, s.Open = end, true
	}
	r.Tracks = append(r.Tracks, bootmodel.Track{Name: u.id, Parent: 0, Kind: bootmodel.KindProcess})
	r.Spans = append(r.Spans, s)
	return cut
}
