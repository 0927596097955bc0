package printk

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/labeled"
)

// sign is a message that tells of a moment.
type sign struct {
	prefix, part string
	mark, how    string
	system       string // whose message it is; "" if more than one has it
}

var signs = []sign{
	{prefix: "Linux version ", system: "linux"},
	{prefix: "NetBSD ", part: " (", system: "netbsd"},
	{prefix: "FreeBSD ", system: "freebsd"},
	{prefix: "VFS: Mounted root (", mark: bootmodel.MarkRoot,
		how: "the kernel's message, after it mounted the file system"},
	{prefix: "root file system type: ", mark: bootmodel.MarkRoot,
		how: "the kernel's message, when it knew the type of the " +
			"file system"},
	{prefix: ownTime, system: "netbsd", mark: bootmodel.MarkUserland,
		how: "the kernel's message about its own time, before process 1 prints anything"},
	{prefix: "Run ", part: " as init process", mark: bootmodel.MarkUserland,
		how: "the kernel's message, before it starts process 1"},
	{prefix: "start_init: trying ", mark: bootmodel.MarkUserland, how: "the kernel's message, before it starts process 1"},
}

// ownTime begins the message of NetBSD with the time that its kernel took, which it
// measures by the processor's counter and not by the clock of its log.
const ownTime = "kernel boot time: "

// ownFigure returns the time since the first line, in ticks of the log's clock, that the
// kernel gives as its own; ok is false if it gives none.
func (l Log) ownFigure() (figure int64, line Line, ok bool) {
	for _, line := range l.Lines[1:] { // a log that begins with the figure lacks its zero
		rest, found := strings.CutPrefix(line.Text, ownTime)
		if !found {
			continue
		}
		ms, err := labeled.Quantity(strings.TrimSpace(rest), map[string]float64{"us": 1e-3, "ms": 1, "s": 1e3})
		if err == nil && ms >= 0 && ms < longestBoot {
			return int64(math.Round(ms / 1e3 * l.Hz)), line, true
		}
	}
	return 0, Line{}, false
}

// longestBoot bounds the figure of a kernel, in milliseconds: a day.
const longestBoot = 24 * 3600 * 1e3

// contradiction says that the clock of the log did not run as fast as the kernel's own
// figure says; "" if both agree within a tenth and 5 ms, or if there is no figure.
func (l Log) contradiction() string {
	figure, line, ok := l.ownFigure()
	passed := line.At - l.Lines[0].At
	if !ok || math.Abs(float64(passed-figure)) <= 0.1*float64(figure)+0.005*l.Hz {
		return ""
	}
	what := "stood still or ran too slowly"
	if passed > figure {
		what = "ran too fast"
	}
	return fmt.Sprintf("Line %d says %q, but by the clock of the log %.1f ms had passed since the first line: the clock "+
		"of the log %s. bakeoff places the mark %q by the kernel's own figure, counted from the first line, and all other "+
		"lines by the clock of the log.",
		line.Number, line.Text, 1e3*float64(passed)/l.Hz, what, bootmodel.MarkUserland)
}

// Marks returns the moments of which the messages tell, and the system whose messages
// they are ("" if none says). Of several messages about one moment the last counts: a kernel
// tries several programs as process 1.
func (l Log) Marks() (marks []bootmodel.Mark, system string) {
	marks = append(marks, bootmodel.Mark{Name: bootmodel.MarkLog, At: l.Lines[0].At,
		How: "the first line of the log; the kernel starts before the clock of its log"})
	found := map[string]bootmodel.Mark{}
	for _, line := range l.Lines {
		for _, s := range signs {
			if !strings.HasPrefix(line.Text, s.prefix) || !strings.Contains(line.Text, s.part) {
				continue
			}
			system = cmp.Or(system, s.system)
			if s.mark != "" {
				found[s.mark] = bootmodel.Mark{Name: s.mark, At: line.At, How: s.how}
				if figure, own, ok := l.ownFigure(); ok && own.Number == line.Number {
					found[s.mark] = bootmodel.Mark{Name: s.mark, At: l.Lines[0].At + figure,
						How: "the boot time that the kernel itself reports, counted from the first line of the log"}
				}
			}
		}
	}
	for _, name := range []string{bootmodel.MarkRoot, bootmodel.MarkUserland} {
		if m, ok := found[name]; ok {
			marks = append(marks, m)
		}
	}
	return marks, system
}

// Notes are what a reader must know of the log.
func (l Log) Notes(source string) (notes []bootmodel.Note) {
	if l.Unstamped > 0 {
		notes = append(notes, bootmodel.Note{Source: source,
			Text: fmt.Sprintf("%s without a time stamp and left out.", countOf(l.Unstamped, "line is", "lines are"))})
	}
	if l.Programs > 0 {
		notes = append(notes, bootmodel.Note{Source: source,
			Text: fmt.Sprintf("%s written by programs, not by the kernel, and "+
				"left out.", countOf(l.Programs, "line was", "lines were"))})
	}
	if l.Xen > 0 {
		notes = append(notes, bootmodel.Note{Source: source,
			Text: fmt.Sprintf("%s written by the hypervisor Xen, which has a clock of its own, and left out.",
				countOf(l.Xen, "line was", "lines were"))})
	}
	notes = append(notes, l.Skipped.Notes(source)...)
	if l.Unknown != "" {
		notes = append(notes, bootmodel.Note{Source: source, Lost: true,
			Text: fmt.Sprintf("Line %d has %q between the time and "+
				"the message. bakeoff does not know this prefix, so it finds no initcalls and no marks. Remove it, for example "+
				"with sed, or copy what dmesg prints.", l.UnknownLine, strings.TrimSpace(l.Unknown))})
	}
	if text := l.contradiction(); text != "" {
		notes = append(notes, bootmodel.Note{Source: source, Text: text})
	}
	if l.Backward > 0 {
		notes = append(notes, bootmodel.Note{Source: source, Text: fmt.Sprintf("The time of %s before that of the line "+
			"above; bakeoff uses the time of the line above.", countOf(l.Backward, "line is", "lines is"))})
	}
	const linux = 1e6 // NetBSD's clock starts at 1 s, and has more digits
	if first := l.Lines[0]; l.Hz == linux && float64(first.At) > l.Hz && !strings.HasPrefix(first.Text, "Linux version") {
		notes = append(notes, bootmodel.Note{Source: source, Lost: true, Text: fmt.Sprintf("The log begins %.6f s after "+
			"the start of its clock, so its first lines were lost. Make its buffer larger (Linux: log_buf_len=4M).",
			float64(first.At)/l.Hz)})
	}
	return notes
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// maxName bounds names that are made of messages, in bytes.
const maxName = 160

// Name splits a message into a name and what it says: "pci 0000:00:01.0: [8086:7000]"
// is "pci 0000:00:01.0" and "[8086:7000]".
func Name(text string) (name, arg string) {
	name, arg, _ = strings.Cut(text, ": ")
	if name = shortName(strings.TrimSpace(name)); name == "" {
		name = "message"
	}
	return name, shortName(strings.TrimSpace(arg))
}

func shortName(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "") + "…"
}
