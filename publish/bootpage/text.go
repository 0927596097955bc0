package bootpage

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/judge/profile"
	"bakeoff/publish/chart/flame"
	"bakeoff/publish/chart/timeline"
)

// The bounds of the text view.
const (
	textRows = 12
	idleRows = 4
	textBar  = 24 // characters
)

// Text writes a boot for a terminal that is width characters wide: what was lost, the
// marks, where the time goes, and what to try.
func Text(w io.Writer, b Boot, width int) error {
	f := flame.New(titleOf(b), &b.Recording, flame.Boxes)
	s, all := f.Scale(), f.Length()
	var out strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintln(&out, safetext.Clip(strings.TrimRight(fmt.Sprintf(format, args...), " "), max(width, 40)))
	}
	fmt.Fprintf(&out, "%s\n%s\n", titleOf(b), leadOf(b, f))
	for _, n := range notesOf(b.Recording) {
		fmt.Fprintf(&out, "note: %s\n", n)
	}
	if t := marksFigure(b, s); t != nil {
		line("")
		for _, r := range t.Numbers.Rows {
			off := ""
			switch {
			case strings.HasPrefix(r[2], "±"):
				off = "  " + r[2]
			case r[2] == timeline.Unavailable:
				off = "  ± unknown"
			}
			line("  %12s  %-12s %s%s", r[1], r[3], r[0], off)
		}
	}
	rows := f.Rows()
	if len(rows) > 0 || len(b.Advice) > 0 {
		fmt.Fprintf(&out, "\n%s\n", f.Whole())
	}
	if len(rows) > 0 {
		line("\n  %9s %7s  %-*s %6s  span", "own time", "share", textBar, "", "spans")
	}
	for _, r := range rows[:min(textRows, len(rows))] {
		bar := strings.Repeat("█", int(textBar*r.Within/max(all, 1)+0.5))
		line("  %9s %7s  %-*s %6d  %s", s.Took(r.Self), flame.Share(r.Within, all), textBar, bar, r.Count, cleanText(r.Label))
	}
	if n := len(rows) - textRows; n > 0 {
		line("  and %d further labels; --html FILE writes all of them, with a chart", n)
	}
	idle := slices.DeleteFunc(slices.Clone(rows), func(r profile.Row) bool { return r.Wait+r.Open == 0 })
	slices.SortStableFunc(idle, func(a, b profile.Row) int { return cmp.Compare(b.Wait+b.Open, a.Wait+a.Open) })
	for i, r := range idle[:min(idleRows, len(idle))] {
		if i == 0 {
			line("\nSpans that waited or did not end (not part of any own time):")
		}
		line("  %9s  %s", f.Idle(r), cleanText(r.Label))
	}
	for i, a := range b.Advice {
		if i == 0 {
			fmt.Fprintln(&out, "\nTo try (bakeoff boot tune measures what it saves):")
		}
		text := fmt.Sprintf("  %s: %s %s", s.Took(a.CostNS), cleanText(a.Text), cleanText(a.Knob))
		if a.Argument != "" {
			text += " Add " + cleanText(a.Argument) + " to the kernel's command line."
		}
		fmt.Fprintln(&out, text)
	}
	_, err := io.WriteString(w, out.String())
	return fault.Wrap(fault.Lab, "boot", err)
}
