package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/percent"
	"bakeoff/publish/difference"
)

// Terminal is what the answer is written for.
type Terminal struct {
	Width int    // columns; 80 if less than 40
	Color bool   // ANSI colors; words and signs say the same without
	ASCII bool   // plain characters only, for terminals without UTF-8
	Page  string // where the page is; "" leaves it out
}

func writeText(w io.Writer, e *contents, opt Option) error {
	t := newTextWriter(newBuilder(e), opt.Terminal)
	t.writeAnswer()
	_, err := io.WriteString(w, t.out.String())
	return err
}

func newTextWriter(b *builder, to Terminal) *textWriter {
	if to.Width < 40 {
		to.Width = 80
	}
	return &textWriter{builder: b, Terminal: to}
}

// copyResults copies what tidy would change in place: the results belong to the caller. Samples
// are not shown.
func (e *contents) copyResults() {
	r := e.results
	r.Summaries = slices.Clone(r.Summaries)
	for i := range r.Summaries {
		r.Summaries[i].Samples = nil
	}
	e.results = analysis.Results{}
	data, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(data, &e.results)
	}
	if err != nil {
		panic(err) // results are written as JSON, and have no other values
	}
}

type textWriter struct {
	*builder
	Terminal
	out strings.Builder
}

func (t *textWriter) writeAnswer() {
	t.judgeRun()
	p := &t.page
	t.writeAlarms()
	t.paintText("1", p.Title)
	t.out.WriteString("\n")
	t.wrapped("", p.Lead+" Ended: "+endingText(t.results)+".")
	t.tallyVerdicts()
	if text := t.results.ProtocolText(); text != "" {
		t.wrapped("", "Protocol of the requests: "+text+".")
	}
	if p.Findable != "" {
		t.wrapped("", "Smallest difference that this run can find in half of the cases: "+p.Findable+".")
	}
	for _, g := range p.Groups {
		t.out.WriteString("\n")
		t.paintText("1", g.Cell+", "+g.Metric)
		t.out.WriteString(", " + g.Direction + "\n")
		t.writeSentences(g.Items)
		if g.Contrary != "" {
			t.wrapped("  ", g.Contrary)
		}
		t.drawBars(g)
		t.writeCurves(g)
	}
	if len(p.Tolerances) > 0 {
		t.out.WriteString("\n")
		t.writeSentences(p.Tolerances)
	}
	t.writeRest()
}

// writeAlarms writes the alarms, each with all that it is about.
func (t *textWriter) writeAlarms() {
	for _, x := range []struct {
		alarm string
		about []string
	}{{distrust, t.page.Alarm}, {notAsPlanned, t.unplanned}} {
		if len(x.about) == 0 {
			continue
		}
		t.paintText("31;1", x.alarm+"\n")
		for _, a := range x.about {
			t.wrapped("  ", a)
		}
		t.out.WriteString("\n")
	}
}

// tallyVerdicts tallies the verdicts, and says which cells have none.
func (t *textWriter) tallyVerdicts() {
	p := &t.page
	if p.Compared > 1 {
		var all []sentence
		for _, g := range p.Groups {
			all = append(all, g.Items...)
		}
		t.wrapped("", fmt.Sprintf("%s: %s.", unit.Count(p.Compared, "comparison"), tallied(all)))
	}
	if p.Unjudged != "" && len(p.Groups) > 0 {
		t.wrapped("", p.Unjudged+"; see the page.")
	}
}

// writeRest is what follows the verdicts.
func (t *textWriter) writeRest() {
	if len(t.page.Groups) == 0 {
		t.out.WriteString("\n")
		if t.countOthers() == 0 {
			t.writeAlone()
		} else {
			t.wrapped("", t.page.NoVerdict)
		}
	}
	t.closing()
}

// closing is what every answer ends with: the twin, what is missing, the warnings and
// the page.
func (t *textWriter) closing() {
	p := &t.page
	if p.TwinName != "" && len(p.TwinSays) > 0 && len(p.Alarm) == 0 {
		t.out.WriteString("\n")
		t.wrapped("", p.TwinNote)
	}
	t.writeSentences(p.Absent)
	for _, w := range p.Notice.Warnings[:t.general] {
		t.wrapped("  ", "warning: "+w)
	}
	for _, m := range t.problems {
		t.wrapped("  ", m)
	}
	for i, g := range t.results.Geomeans {
		if i == 0 {
			t.out.WriteString("\n")
		}
		t.wrapped("", geomeanSentence(g))
	}
	if t.Page != "" {
		t.out.WriteString("\nFull report: " + safetext.Text(t.Page) + "\n")
	}
}

// tallied counts sentences by their word: "4 equivalent, 1 inconclusive".
func tallied(ss []sentence) string {
	var out []string
	for _, word := range words {
		n := lists.Count(ss, func(s sentence) bool { return s.Word == word })
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(out, ", ")
}

// colors repeat what words and signs say.
var colors = map[chart.Mark]string{
	chart.Better: "34", chart.Worse: "33", chart.Same: "32", chart.Open: "2", chart.Plain: "2"}

func (t *textWriter) paintText(code, s string) {
	if t.Color {
		s = "\x1b[" + code + "m" + s + "\x1b[0m"
	}
	t.out.WriteString(s)
}

func (t *textWriter) writeSentences(items []sentence) {
	for _, s := range items {
		t.sentence(s)
	}
}

func (t *textWriter) sentence(s sentence) {
	t.out.WriteString("  ")
	sign := s.Mark.Sign()
	if t.ASCII {
		sign = toASCII(sign)
	}
	t.paintText(colors[s.Mark], sign)
	t.wrapped("    ", s.String())
}

// wrapped writes s in lines of at most Width columns after indent. It continues
// a line that has text already.
func (t *textWriter) wrapped(indent, s string) {
	if t.ASCII {
		s = toASCII(s)
	}
	column := 0
	if soFar := t.out.String(); soFar != "" && !strings.HasSuffix(soFar, "\n") {
		column = len(indent) - 1 // the sign stands in the indent
	} else {
		t.out.WriteString(indent)
		column = len(indent)
	}
	fresh := column == len(indent)
	for _, word := range splitWords(keepJoined(s), t.Width-len(indent)) {
		n := utf8.RuneCountInString(word)
		if !fresh && column+1+n > t.Width {
			t.out.WriteString("\n" + indent)
			column, fresh = len(indent), true
		}
		if !fresh {
			t.out.WriteString(" ")
			column++
		}
		t.out.WriteString(strings.ReplaceAll(word, "\u00a0", " "))
		column, fresh = column+n, false
	}
	t.out.WriteString("\n")
}

// splitWords splits s into words, and breaks a word that is longer than a line, such
// as a path.
func splitWords(s string, line int) (out []string) {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' }) {
		for part := range slices.Chunk([]rune(word), line) {
			out = append(out, string(part))
		}
	}
	return out
}

var plainText = strings.NewReplacer("−", "-", "…", "...", "×", "x", "÷", "1/", "µ", "u", "–", "-", "±", "+-",
	"≥", ">=", "≤", "<=", "\u00a0", " ", "’", "'", "▲", "+", "▼", "-", "∅", "0", "←", "<", "→", ">")

// toASCII replaces the characters that sentences are made with.
func toASCII(s string) string {
	s = plainText.Replace(s)
	return strings.Map(func(r rune) rune {
		if r > 126 {
			return '?'
		}
		return r
	}, s)
}

// drawBars draws the intervals of a group on an axis of their own.
func (t *textWriter) drawBars(g group) {
	cs := t.primary(g.Cell, g.Metric)
	var rows []percent.Row
	var texts []string
	for _, c := range cs {
		if c.Scale == sample.Difference {
			return // sentences have it; there is no common scale to draw on
		}
		r := percentRow(c)
		if r.Value == nil && r.Lo == nil && r.Hi == nil {
			continue
		}
		text := shortDifference(c)
		r.Label = keepEnds(r.Label, 21)
		if t.ASCII {
			r.Label, text = toASCII(r.Label), toASCII(text)
		}
		rows, texts = append(rows, r), append(texts, text)
	}
	if len(rows) > 0 {
		t.drawRows(percent.NewAxis(t.results.Margin, rows...), difference.Speak(cs[0].Metric, cs[0].Unit, cs[0].Better),
			rows, texts)
	}
}

// drawRows draws intervals on an axis, each with a text at its end, where there is room.
func (t *textWriter) drawRows(axis percent.Axis, w difference.Speech, rows []percent.Row, texts []string) {
	name, value := 0, 0
	for i, r := range rows {
		name, value = max(name, utf8.RuneCountInString(r.Label)), max(value, utf8.RuneCountInString(texts[i]))
	}
	room := min(t.Width-name-value-8, 61)
	if room < 11 {
		return
	}
	left, right := "← "+w.Less, w.More+" →"
	if t.ASCII {
		left, right = toASCII(left), toASCII(right)
	}
	gap := max(room-utf8.RuneCountInString(left)-utf8.RuneCountInString(right), 1)
	t.paintText("2", strings.Repeat(" ", name+6)+left+strings.Repeat(" ", gap)+right+"\n")
	for i, r := range rows {
		fmt.Fprintf(&t.out, "    %s  ", padTo(r.Label, name))
		t.paintText(colors[r.Mark], t.drawInterval(axis, r, room))
		fmt.Fprintf(&t.out, "  %s%s\n", strings.Repeat(" ", value-utf8.RuneCountInString(texts[i])), texts[i])
	}
}

// padTo fills s with spaces to n columns; fmt counts bytes of some characters.
func padTo(s string, n int) string {
	return s + strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0))
}

// drawInterval draws one interval: the margin as a shade, no difference as a line, the
// whisker and the estimate over them.
func (t *textWriter) drawInterval(axis percent.Axis, r percent.Row, width int) string {
	set := []rune(" ░│├─┤●◄►")
	if t.ASCII {
		set = []rune(" .|[-]o<>")
	}
	line := make([]rune, width)
	at := func(v float64) int { return min(int(axis.Position(v)*float64(width)), width-1) }
	lo, hi, _ := axis.Band()
	for i := range line {
		line[i] = set[0]
		if i >= at(lo) && i <= at(hi) {
			line[i] = set[1]
		}
	}
	line[at(1)] = set[2]
	from, to, first, last := 0, width-1, set[7], set[8]
	if r.Lo != nil {
		from, first = at(*r.Lo), set[3]
	}
	if r.Hi != nil {
		to, last = at(*r.Hi), set[5]
	}
	for i := from; i <= to; i++ {
		line[i] = set[4]
	}
	if from <= to {
		line[from], line[to] = first, last
	}
	if r.Value != nil {
		line[at(*r.Value)] = set[6]
	}
	return string(line)
}
