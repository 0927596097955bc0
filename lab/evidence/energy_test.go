package evidence

import (
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/lab/manifest"
	"bakeoff/lab/store"
)

// Why energy is not known is said of each end by itself, with its host; of a
// generator only where it has one of its own.
func TestNoEnergySaysOfWhichEnd(t *testing.T) {
	p, _ := encoded(t)
	trial := func(near, far *facts.Counters) []store.Line {
		l := store.Line{Type: store.LineTrial, Contender: "crun",
			Trial: &store.Trial{Before: near, After: near, GeneratorBefore: far, GeneratorAfter: far}}
		return []store.Line{l}
	}
	blind, counts := &facts.Counters{}, &facts.Counters{Joules: f(7)}
	for name, c := range map[string]struct {
		generator       string
		lines           []store.Line
		hosts           map[string]manifest.Host
		subject, beside string // of crun; "" is nothing
	}{
		"one host":       {"", trial(blind, nil), nil, "local has no energy counter", ""},
		"neither counts": {"client", trial(blind, blind), nil, "local has no energy counter", "client has no energy counter"},
		"a meter there fails": {"client", trial(counts, blind), map[string]manifest.Host{"client": {Meter: []string{"m"}}},
			"the counter on local can resolve", "the meter of client gave no reading"},
		"a meter here fails": {"client", trial(blind, counts), map[string]manifest.Host{"local": {Meter: []string{"m"}}},
			"the meter of local gave no reading", "the counter on client can resolve"},
		"an older journal":  {"client", trial(counts, nil), nil, "the counter on local can resolve", ""},
		"nothing was tried": {"client", nil, nil, "", ""},
		"only one of the ends": {"client", []store.Line{{Type: store.LineTrial, Contender: "crun",
			Trial: &store.Trial{GeneratorBefore: blind}}}, nil, "", ""},
	} {
		q := *p
		q.Generator, q.Hosts = c.generator, c.hosts
		s := storyOf(&q, "", c.lines)
		for end, x := range map[string]struct {
			got  map[string]string
			want string
		}{"the subject's": {s.noEnergy(), c.subject}, "the generator's": {s.noGeneratorEnergy(), c.beside}} {
			got, told := x.got["crun"]
			if told != (x.want != "") || !strings.Contains(got, x.want) || len(x.got) > 1 {
				t.Errorf("%s, %s: %v, want %q of crun alone", name, end, x.got, x.want)
			}
		}
	}
}
