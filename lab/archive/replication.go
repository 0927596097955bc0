package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"bakeoff/base/bounded"
	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/replication"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
)

// ReplicationSchema is the schema of a Replication.
const ReplicationSchema = "bakeoff/replication/v1"

// Bounds on a Replication.
const (
	maxReplication = 4 << 20 // bytes
	maxVerdicts    = 10_000
	maxDifferences = 2_000
	maxFact        = 1_000 // bytes of a text
	maxMachine     = 20    // facts of a machine
)

// replications are results of bakeoff replicate. The second layer is a signature of the
// first.
var replications = referral{artifactType: "application/vnd.bakeoff.replication.v1", dir: "replications",
	layers: []layerOf{{"application/vnd.bakeoff.replication.v1+json", maxReplication}, {sshType, maxSignature}},
	least:  1, most: 1000, namespace: replicationNamespace,
	signed: func(_ []byte, layers [][]byte) (message, signature []byte) {
		if len(layers) == 1 {
			return layers[0], nil
		}
		return layers[0], layers[1]
	}}

// Replication says which verdicts of a bundle hold in a second run of its lab.
type Replication struct {
	Schema string `json:"schema"`
	Bundle string `json:"bundle"` // the digest of the bundle whose verdicts are judged
	// Run is the digest of the bundle of the second run, and Name the name of its folder.
	Run     string    `json:"run"`
	Name    string    `json:"name"`
	At      time.Time `json:"at"` // the end of the second run
	Program string    `json:"program"`
	// Machine is the machine of its baseline (history.Machine).
	Machine     map[string]string        `json:"machine"`
	Comparisons []replication.Comparison `json:"comparisons"`
	// Differences are the facts that differ: old is that of the bundle, new that of the
	// second run.
	Differences []compare.Difference `json:"differences"`
}

// Summary counts its outcomes.
func (r Replication) Summary() replication.Summary { return replication.Summarize(r.Comparisons) }

// ParseReplication reads what a stranger wrote about the bundle of, and judges its numbers
// again. Its text is not harmless: see Clean. Errors are of kind fault.Invalid.
func ParseReplication(b []byte, of string) (Replication, error) {
	var r Replication
	refuse := func(format string, args ...any) (Replication, error) {
		return Replication{}, fault.New(fault.Invalid, "the replication: "+format, args...)
	}
	if len(b) > maxReplication {
		return refuse("it has %d bytes; the limit is %d", len(b), maxReplication)
	}
	if err := strictjson.Decode(b, &r); err != nil {
		return refuse("%w", err)
	}
	switch {
	case r.Schema != ReplicationSchema:
		return refuse("the schema is %.60q, but this program reads %q", r.Schema, ReplicationSchema)
	case r.Bundle != of:
		return refuse("it is about the bundle %.80q, not %s", r.Bundle, of)
	case !name.ValidDigest(r.Run) || r.Run == r.Bundle:
		return refuse("%.80q is not the digest of another run", r.Run)
	case r.At.IsZero():
		return refuse("it has no time")
	case len(r.Comparisons) == 0 || len(r.Comparisons) > maxVerdicts:
		return refuse("it has %d verdicts; it must have 1 to %d", len(r.Comparisons), maxVerdicts)
	case len(r.Differences) > maxDifferences || len(r.Machine) == 0 || len(r.Machine) > maxMachine:
		return refuse("it has %d differences and %d facts of the machine; at most %d and 1 to %d are possible",
			len(r.Differences), len(r.Machine), maxDifferences, maxMachine)
	}
	texts := []string{r.Name, r.Program}
	for k, v := range r.Machine {
		texts = append(texts, k, v)
	}
	for _, d := range r.Differences {
		texts = append(texts, d.Contender, d.Fact, d.Old, d.New)
	}
	seen := map[[3]string]bool{}
	for _, c := range r.Comparisons {
		texts = append(texts, c.Contender, c.Cell, c.Metric, c.Unit, c.Reason, c.Withheld)
		key := [3]string{c.Contender, c.Cell, c.Metric}
		judged := c
		judged.Judge()
		switch {
		case seen[key]:
			return refuse("it judges %.80q twice", key)
		case !(c.Region >= 0) || math.IsInf(c.Region, 0):
			return refuse("the margin of %.80q is %v", key, c.Region)
		case judged.Outcome != c.Outcome || judged.Reason != c.Reason || judged.OtherSize != c.OtherSize:
			return refuse("%.80q is %.40q by its numbers, not %.40q", key, judged.Outcome, c.Outcome)
		}
		seen[key] = true
	}
	if i := slices.IndexFunc(texts, func(s string) bool { return len(s) > maxFact }); i >= 0 {
		return refuse("a text has more than %d bytes: %.60q", maxFact, texts[i])
	}
	return r, nil
}

// Clean is the replication with harmless text.
func (r Replication) Clean() Replication {
	safetext.Scrub(&r, safetext.Line)
	return r
}

// quotes checks that a replication judges every verdict of a bundle, and quotes it as it
// is.
func (r Replication) quotes(rec bundle.Record) error {
	claims := 0
	for _, c := range rec.Comparisons {
		if !c.Primary || c.TwinOf != "" || c.Verdict == "" || c.Verdict == analysis.Inconclusive ||
			rec.TwinDiffers != nil && *rec.TwinDiffers {
			continue
		}
		claims++
		there := replication.Side{Verdict: c.Verdict, Ratio: c.Ratio, Low: c.Low, High: c.High, BeyondMargin: c.BeyondMargin,
			Blocks: c.Blocks}
		x, ok := lists.Find(r.Comparisons, func(x replication.Comparison) bool {
			return x.Contender == c.Contender && x.Cell == c.Cell && x.Metric == c.Metric
		})
		same := ok && reflect.DeepEqual(x.There, there) && x.Scale == c.Scale && x.Better == c.Better && x.Unit == c.Unit
		if c.Scale != sample.Difference && ok {
			same = same && x.Region == float64(analysis.RatioRegion(rec.Margin))
		}
		if !same {
			return fault.New(fault.Invalid, "the replication: the verdict of %s on cell %s (metric %s) is missing "+
				"or differs from the bundle",
				c.Contender, c.Cell, c.Metric)
		}
	}
	if claims != len(r.Comparisons) {
		return fault.New(fault.Invalid, "the replication has %d verdicts, but the bundle has %d", len(r.Comparisons), claims)
	}
	return nil
}

// judge judges the verdicts of a bundle by a second run. Both are in the store.
func (s *Store) judge(of, run string) (r Replication, err error) {
	var pasts [2]compare.Run
	var labs [2]string
	for i, digest := range []string{of, run} {
		e, err := s.Entry(digest)
		if err != nil {
			return r, err
		}
		m, _, err := s.Manifest(digest)
		if err != nil {
			return r, err
		}
		b, err := s.Results(m)
		if err != nil {
			return r, err
		}
		res, err := analysis.ParseResults(b)
		if err != nil {
			return r, err
		}
		pasts[i], labs[i] = e.Record.Past(res, "").Run, e.Record.LabSHA256
		r = Replication{Schema: ReplicationSchema, Bundle: of, Run: run, Name: e.Record.Run, At: e.Record.Ended,
			Program: e.Record.Program, Machine: e.Record.Machine}
	}
	if labs[0] != labs[1] {
		return r, fault.New(fault.Invalid, "the runs have different lab files")
	}
	if r.Comparisons, err = replication.Of(pasts[0].Results, pasts[1].Results); err != nil {
		return r, err
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		c.Withheld = safetext.Clip(c.Withheld, maxFact/4)
		c.Judge()
	}
	r.Differences = compare.Differences(pasts[0], pasts[1])
	r.Differences = r.Differences[:min(len(r.Differences), maxDifferences)]
	for i, d := range r.Differences {
		r.Differences[i].Old, r.Differences[i].New = safetext.Clip(d.Old, maxFact/4), safetext.Clip(d.New, maxFact/4)
	}
	return r, nil
}

// Replicate judges the verdicts of the bundle of by the bundle run, and adds the result to
// the store as a referrer of the first, signed if the store has a key. An error of kind
// fault.Invalid says that there is nothing to judge.
func (s *Store) Replicate(ctx context.Context, of, run string) (r Replication, err error) {
	if r, err = s.judge(of, run); err != nil {
		return r, fault.Op("replicate", err)
	}
	b, err := json.Marshal(r)
	if err == nil {
		_, err = ParseReplication(b, of) // what others would refuse is not written
	}
	if err != nil {
		return r, fault.Op("replicate", err)
	}
	layers := [][]byte{b}
	if s.Config.Key != "" {
		text, err := s.signature(ctx, replicationNamespace, b)
		if err != nil {
			return r, err
		}
		layers = append(layers, text)
	}
	_, manifest, err := s.Manifest(of)
	if err != nil {
		return r, err
	}
	return r, s.changeStore(ctx, func() error {
		if err := s.keepReferrer(replications, of, int64(len(manifest)), layers...); err != nil {
			return err
		}
		return s.Index.Touch(ctx, of)
	})
}

// Replicated is a replication of a bundle in the store.
type Replicated struct {
	Replication
	Outcome replication.Summary `json:"summary"`
	// SignedBy is who in the file of trusted keys signed it; "" if nobody did.
	SignedBy string `json:"signed_by"`
	// Checked says that the store has the second run, and that its numbers say the same.
	Checked bool `json:"checked"`
}

// HostName names its machine.
func (r Replicated) HostName() string { return index.HostName(r.Machine) }

// Tally counts machines by what they say.
type Tally struct {
	Machines     int `json:"machines"`
	Holds        int `json:"holds"`
	Fails        int `json:"does_not_hold"`
	Inconclusive int `json:"inconclusive"`
}

func (t *Tally) add(o replication.Outcome) {
	t.Machines++
	switch o {
	case replication.Holds:
		t.Holds++
	case replication.Fails:
		t.Fails++
	default:
		t.Inconclusive++
	}
}

// Replications are what other runs say of a bundle. Each machine counts once, with its
// newest result: a signed one with those that the same person signed.
type Replications struct {
	Signed   Tally `json:"signed"`   // by somebody in the file of trusted keys
	Unsigned Tally `json:"unsigned"` // by nobody, or by somebody who is not trusted
	// Refused counts results that are damaged, that misquote the bundle, or that say
	// something else than their own run.
	Refused int `json:"refused"`
	// Results are those that count, signed ones first, then by machine.
	Results []Replicated `json:"results"`
}

// String says it in one line: holds on 14 of 17 machines. Without any result it is never.
func (r Replications) String() string {
	say := func(t Tally) string {
		text := fmt.Sprintf("holds on %d of %s", t.Holds, unit.Count(t.Machines, "machine"))
		if t.Inconclusive > 0 {
			text += fmt.Sprintf(", inconclusive on %d", t.Inconclusive)
		}
		return text
	}
	var parts []string
	if r.Signed.Machines > 0 {
		parts = append(parts, say(r.Signed))
	}
	if r.Unsigned.Machines > 0 {
		parts = append(parts, "without a trusted signature: "+say(r.Unsigned))
	}
	if r.Refused > 0 {
		parts = append(parts, unit.Count(r.Refused, "result")+" refused")
	}
	return cmp.Or(strings.Join(parts, "; "), "never")
}

// Replications reads the replications of a bundle. Their text is harmless.
func (s *Store) Replications(ctx context.Context, of string) (Replications, error) {
	out := Replications{Results: []Replicated{}}
	all, _, err := s.referrers(replications, of)
	if err != nil || len(all) == 0 {
		return out, err
	}
	e, err := s.Entry(of)
	if err != nil {
		return out, err
	}
	work, done, err := s.workFolder()
	if err != nil {
		return out, err
	}
	defer done()
	newest := map[[2]string]Replicated{} // by signer and machine
	for _, digest := range all {
		r, err := s.readReplication(ctx, work, digest, e.Record, of)
		if fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) {
			out.Refused++
			continue
		}
		if err != nil {
			return out, err
		}
		key := [2]string{r.SignedBy, index.HostName(r.Machine)}
		if old, ok := newest[key]; !ok || cmp.Or(old.At.Compare(r.At), cmp.Compare(old.Name, r.Name)) < 0 {
			newest[key] = r
		}
	}
	for key, r := range newest {
		r.Replication = r.Clean()
		out.Results = append(out.Results, r)
		if key[0] != "" {
			out.Signed.add(r.Outcome.Outcome)
		} else {
			out.Unsigned.add(r.Outcome.Outcome)
		}
	}
	slices.SortFunc(out.Results, func(a, b Replicated) int {
		return cmp.Or(cmp.Compare(b2i(a.SignedBy == ""), b2i(b.SignedBy == "")), cmp.Compare(a.HostName(), b.HostName()),
			cmp.Compare(a.SignedBy, b.SignedBy))
	})
	return out, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Replicated implements index.Again.
func (s *Store) Replicated() (map[string]string, error) {
	folders, err := os.ReadDir(filepath.Join(s.Dir, replications.dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.Wrap(fault.Lab, "store", err)
	}
	trusted := []byte{}
	if s.Config.Signers != "" && len(folders) > 0 {
		if trusted, err = bounded.ReadFile(s.Config.Signers, maxReplication); err != nil {
			return nil, err
		}
	}
	out := map[string]string{}
	for _, f := range folders {
		of := "sha256:" + f.Name()
		if !s.Has(of) {
			continue
		}
		all, _, err := s.referrers(replications, of)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 {
			slices.Sort(all)
			out[of] = hexsum.Of(append([]byte(strings.Join(all, " ")), trusted...))
		}
	}
	return out, nil
}

// mostTold is how many machines Tell names, and mostFacts how many facts of each.
const (
	mostTold  = 50
	mostFacts = 8
)

// Tell implements index.Again: it also names the machines on which a verdict does not hold, with
// the facts that differ there.
func (s *Store) Tell(ctx context.Context, digest string) ([]string, error) {
	all, err := s.Replications(ctx, digest)
	if err != nil {
		return nil, err
	}
	lines := []string{"Replicated: " + all.String() + "."}
	failing := lists.Filter(all.Results, func(r Replicated) bool { return r.Outcome.Outcome == replication.Fails })
	for _, r := range failing[:min(len(failing), mostTold)] {
		facts := r.Explain()
		text := "Does not hold on " + r.HostName() + " (" + r.Signer() + "): " + strings.Join(r.Failing(), "; ") + "."
		if len(facts) > 0 {
			text += " " + strings.Join(facts[:min(len(facts), mostFacts)], "; ") + "."
		}
		lines = append(lines, text)
	}
	if more := len(failing) - mostTold; more > 0 {
		lines = append(lines, "It also does not hold on "+unit.Count(more, "more machine")+".")
	}
	return lines, nil
}

// Signer says who signed the result.
func (r Replicated) Signer() string {
	if r.SignedBy == "" {
		return "no trusted signature"
	}
	return "signed by " + r.SignedBy
}

// Failing names the verdicts that do not hold, with the reasons.
func (r Replicated) Failing() (out []string) {
	for _, c := range r.Comparisons {
		if c.Outcome == replication.Fails {
			out = append(out, fmt.Sprintf("%s, %s, %s: %s there, but %s", c.Contender, c.Cell, c.Metric, c.There.Verdict,
				c.Reason))
		}
	}
	return out
}

// readReplication reads and checks one replication.
func (s *Store) readReplication(ctx context.Context, work, digest string, rec bundle.Record, of string) (r Replicated,
	err error) {
	_, _, layers, err := s.readReferrer(replications, digest, of)
	if err != nil {
		return r, err
	}
	if r.Replication, err = ParseReplication(layers[0], of); err != nil {
		return r, err
	}
	if err := r.quotes(rec); err != nil {
		return r, err
	}
	if s.Has(r.Run) {
		own, err := s.judge(of, r.Run)
		if err != nil {
			return r, err
		}
		a, err1 := json.Marshal(own.Comparisons)
		b, err2 := json.Marshal(r.Comparisons)
		if err1 != nil || err2 != nil || string(a) != string(b) || !reflect.DeepEqual(own.Machine, r.Machine) {
			return r, fault.New(fault.Invalid, "the numbers of the replication differ from those of its run %s", r.Run)
		}
		r.Checked = true
	}
	if r.SignedBy, err = s.signerOf(ctx, work, replications, nil, layers); err != nil {
		return r, err
	}
	r.Outcome = r.Summary()
	return r, nil
}

// firstFacts are the facts of a machine that explain most, most important first.
var firstFacts = []string{"arch", "cpu.model", "cpu.count", "cpu.microcode", "memory", "kernel", "os", "driver.version",
	"libc", "governor", "smt", "clocksource"}

// Explain lists the facts that differ for contenders whose verdicts do not hold, and for
// the baseline, the most important first, each once.
func (r Replication) Explain() []string {
	failing := map[string]bool{}
	for _, c := range r.Comparisons {
		failing[c.Contender] = c.Outcome == replication.Fails || failing[c.Contender]
	}
	type fact struct{ name, old, new string }
	var facts []fact
	for _, d := range r.Differences {
		f := fact{d.Fact, d.Old, d.New}
		if others, known := failing[d.Contender]; (others || !known) && !slices.Contains(facts, f) {
			facts = append(facts, f)
		}
	}
	rank := func(f fact) int {
		if i := slices.Index(firstFacts, f.name); i >= 0 {
			return i
		}
		if strings.HasPrefix(f.name, "driver.") {
			return len(firstFacts)
		}
		return len(firstFacts) + 1
	}
	slices.SortStableFunc(facts, func(a, b fact) int { return cmp.Compare(rank(a), rank(b)) })
	return lists.Map(facts, func(f fact) string {
		return f.name + ": " + safetext.Clip(f.old, 60) + " there, " + safetext.Clip(f.new, 60) + " here"
	})
}
