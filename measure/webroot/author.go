package webroot

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// author writes the texts of the example.
type author struct{ rng *rand.Rand }

// The words of the texts. A sentence is a subject, a verb and an object,
// sometimes with a reason.
var (
	subjects = []string{"the kernel", "a small daemon", "the old switch", "our file server", "the scheduler",
		"one thread", "a packet", "the disk", "the cache", "the timer", "a socket", "the night shift", "the web server",
		"a second process"}
	acts = []string{"waits for", "wakes", "copies", "forgets", "counts", "moves", "asks for", "holds", "gives back",
		"writes down", "finds", "sends", "reads", "keeps"}
	objects = []string{"the next block", "its queue", "a page of memory", "the last lock", "an empty buffer", "the log",
		"a list of names", "the slow path", "every interrupt", "a single byte", "the table of routes", "its neighbour",
		"the index", "a handful of files"}
	reasons = []string{"before anybody notices", "because it was told to", "as it does every night", "and then sleeps",
		"while the fans slow down", "without a word in the log", "when the load is low", "after a short wait",
		"which takes longer than it seems", "and nobody knows why"}
)

func (g *author) pickOne(from []string) string { return from[g.rng.IntN(len(from))] }

func (g *author) sentence() string {
	s := g.pickOne(subjects) + " " + g.pickOne(acts) + " " + g.pickOne(objects)
	if g.rng.IntN(3) > 0 {
		s += ", " + g.pickOne(reasons)
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// paragraph returns n sentences.
func (g *author) paragraph(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = g.sentence()
	}
	return strings.Join(all, " ")
}

func (g *author) paragraphs(n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "<p>%s</p>\n", g.paragraph(5))
	}
	return b.String()
}

// firstSentence returns the first sentence of a text.
func firstSentence(text string) string {
	s, _, _ := strings.Cut(text, ".")
	return s + "."
}

// styleSheet is the style sheet: rules, and a scale of colors and widths.
func styleSheet() string {
	var b strings.Builder
	b.WriteString(`:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fdfcf8; --link: #1b5e8c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e4de; --paper: #16181a; --link: #8cc4ee; } }
body { margin: 0 auto; max-width: 42rem; padding: 1rem; color: var(--ink); background: var(--paper);` +
		` font: 1rem/1.6 Georgia, serif; }
header { display: flex; flex-wrap: wrap; gap: 1rem; justify-content: space-between; border-bottom: 1px solid; }
header .name { font-weight: bold; text-decoration: none; }
nav { display: flex; gap: .8rem; }
a { color: var(--link); }
img { max-width: 100%; height: auto; }
.day, footer { font-size: .85rem; }
.turn { display: flex; justify-content: space-between; gap: 1rem; }
.posts { list-style: none; padding: 0; }
.posts li { margin: 0 0 .8rem; }
@media print { header, footer, .turn { display: none; } }
`)
	for hue := 0; hue < 360; hue += 15 {
		for _, light := range []int{20, 40, 60, 80} {
			fmt.Fprintf(&b, ".hue-%d-%d { background: hsl(%[1]d 45%% %[2]d%%); border-color: hsl(%[1]d 55%% %d%%); }\n", hue,
				light, light/2)
		}
	}
	return b.String()
}
