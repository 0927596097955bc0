package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	storecmd "bakeoff/cmd/bakeoff/archive"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/replication"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/dryrun"
	"bakeoff/lab/inputs"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
	labstore "bakeoff/lab/store"
)

// replicateSchema is the schema of what replicate prints with --json.
const replicateSchema = "bakeoff/replicate/v1"

// replicateFlags are the flags of replicate.
type replicateFlags struct {
	store, files, out, run string
	bind, connect          []string
	labels                 map[string]string
	budget                 time.Duration
	dryRun, yes, push      bool
	json                   bool
}

// replicated is what replicate prints with --json. What is not known yet is null.
type replicated struct {
	Schema string `json:"schema"`
	Bundle string `json:"bundle"`
	Run    string `json:"run"` // the name of the run in the bundle
	// SignedBy are those in the file of trusted keys who signed the bundle.
	SignedBy []string `json:"signed_by"`
	Verdicts int      `json:"verdicts"` // that can be replicated
	// Machine are the facts of the machine that differ, before anything runs.
	Machine  []compare.Difference `json:"machine_differences"`
	Executes []execution          `json:"executes"`
	Ready    *dryrun.Ready        `json:"ready"`
	Folder   string               `json:"folder,omitempty"` // of the second run
	Result   *archive.Replication `json:"replication"`
	Summary  *replication.Summary `json:"summary"`
	Signed   bool                 `json:"signed"`
}

func (a *app) replicateCommand() *cobra.Command {
	var f replicateFlags
	c := &cobra.Command{
		Use:   "replicate REF",
		Short: "Run the lab of a bundle here, and say whether its verdicts hold",
		Long: `replicate runs the lab of a bundle again, and reports for each verdict whether
it holds on this machine. REF is a run of the store (bakeoff store), or a bundle in a
registry, HOST/NAME:TAG or HOST/NAME@sha256:…, which replicate pulls first.

The lab file of a bundle may come from a stranger, and a run executes its commands with your
rights. replicate checks the whole bundle. It shows what differs on this machine, and every
command and program that the lab would execute. It asks for confirmation before it executes
anything. --yes executes without asking. replicate connects to a host of the lab file only
if you name the host: --bind gives the host of a pool an address (local is this machine),
and --connect permits the address in the lab file. If the lab places files in environments,
the bundle contains only the hashes of these files. With --files, name the folder that has
these files; replicate compares the hashes.

A verdict holds if this machine gives the same verdict. If the intervals of the two runs are
apart by more than the margin, replicate reports that the sizes of the differences do not
agree. A verdict does not hold if this machine gives the opposite direction, or if one run
gives the verdict equivalent and the other a clear difference. In all other cases, replicate
reports inconclusive. docs/guides/store.md has the rules.

replicate adds the second run to the store, and attaches the result to the bundle (as an OCI
referrer). replicate signs the result with the key of the store. --push sends the run and
the result to the registry. bakeoff store show REF lists the results of all machines.

The exit code is 0 if every verdict holds, and 3 if one verdict does not hold. The exit code
is 6 if some answers are inconclusive and all other verdicts hold.`,
		Example: `  bakeoff replicate 20260102T030405Z-quick --dry-run
  bakeoff replicate registry.example/team/runs:20260102T030405Z-quick-1a2b3c4d5e6f
  bakeoff replicate 1a2b3c4d5e6f --yes --json | jq .summary
  bakeoff replicate 1a2b3c4d5e6f --bind box=root@rack2-07 --label machine=rack2-07
  bakeoff replicate 1a2b3c4d5e6f --run runs/20260103T030405Z-quick`,
		Args: cli.Each("a bundle"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.json && !f.yes && !f.dryRun && f.run == "":
				return cli.Usage(c, errors.New("with --json, bakeoff cannot ask for confirmation: add --yes or --dry-run"))
			case f.budget < 0:
				return cli.Usage(c, fmt.Errorf("--budget must be positive (got %v)", f.budget))
			}
			if err := labstore.CheckLabels(f.labels); err != nil {
				return cli.Usage(c, err)
			}
			return a.replicate(c, f, args[0])
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.store, "store", "", "`folder` of the store (default: $BAKEOFF_STORE, or store)")
	fl.StringVar(&f.out, "out", "runs", "`folder` in which to create the run folder")
	fl.StringVar(&f.files, "files", "", "`folder` with the files that the lab file names")
	fl.StringVar(&f.run, "run", "", "use the run in this `folder` as the second run, and execute nothing")
	fl.StringSliceVar(&f.bind, "bind", nil,
		"use the machine at ADDRESS as the host NAME of the lab file: `NAME=ADDRESS`; may be repeated")
	fl.StringSliceVar(&f.connect, "connect", nil, "connect to this `host` of the lab file; may be repeated")
	fl.StringToStringVar(&f.labels, "label", nil,
		"record this label `name=value` in the run folder; machine=NAME names the machine")
	fl.DurationVar(&f.budget, "budget", 0, "`time` limit instead of the budget in the bundle")
	fl.BoolVar(&f.push, "push", false, "send the second run and the result to the registry")
	fl.BoolVarP(&f.dryRun, "dry-run", "n", false, "show what would run, and execute nothing")
	fl.BoolVarP(&f.yes, "yes", "f", false, "execute the commands of the bundle without asking")
	fl.BoolVar(&f.json, "json", false, "print one JSON object; requires --yes, --dry-run or --run")
	return c
}

// foreign is a bundle whose lab is to be run.
type foreign struct {
	digest  string
	place   string // HOST/NAME of the registry that it came from; "" if it was in the store
	record  bundle.Record
	results analysis.Results
	plan    *plan.Plan
	source  []byte // the lab file
	signed  []string
}

func (a *app) replicate(c *cobra.Command, f replicateFlags, ref string) error {
	ctx, end := a.Interruptible(c.Context())
	stop := sync.OnceFunc(end)
	defer stop()
	b, err := a.fetchBundle(ctx, f, ref)
	if err != nil {
		return cmp.Or(cli.Interrupted(ctx, "nothing was executed"), err)
	}
	out := replicated{Schema: replicateSchema, Bundle: b.digest, Run: safetext.Line(b.record.Run), SignedBy: b.signed,
		Verdicts: len(replication.Claims(b.results)), Executes: []execution{}}
	var ended error // how the run ended, if it ended as a whole
	if f.run == "" {
		lab, err := a.foreignLab(f, b)
		if err != nil {
			return err
		}
		seed := session.DrawSeed()
		if err := a.announce(ctx, lab, b, seed, f, &out); err != nil {
			return err
		}
		if f.dryRun {
			if f.json {
				return a.PrintJSON(out)
			}
			return nil
		}
		if !f.yes {
			if err := a.Ask("Execute these commands on this machine?", "nothing was executed"); err != nil {
				return err
			}
		}
		if err := a.pinForeign(ctx, lab, b); err != nil {
			return cmp.Or(cli.Interrupted(ctx, "nothing was executed"), err)
		}
		stop() // carryOut listens to signals itself
		if f.run, ended = a.runForeign(c, lab, b, seed, f); f.run == "" {
			return ended
		}
		ctx, end = a.Interruptible(c.Context())
		defer end()
	}
	if out.Folder, err = offline.RunDir(f.run); err != nil {
		return err
	}
	if err := a.judgeReplication(ctx, f, b, &out); err != nil {
		return err
	}
	switch out.Summary.Outcome {
	case replication.Fails:
		return cli.Exit{Code: cli.ExitFails}
	case replication.Inconclusive:
		return cli.Exit{Code: cli.ExitUndecided}
	}
	return ended
}

// withStore calls do with the store.
func (a *app) withStore(ctx context.Context, f replicateFlags, do func(*archive.Store) error) error {
	s, err := storecmd.Open(ctx, storecmd.Folder(a.Env, f.store))
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

// fetchBundle finds a bundle, pulls it if it is in a registry, and checks all of it.
func (a *app) fetchBundle(ctx context.Context, f replicateFlags, ref string) (b foreign, err error) {
	err = a.withStore(ctx, f, func(s *archive.Store) error {
		b.digest, err = s.Resolve(ctx, ref)
		if fault.Is(err, fault.NotFound) && strings.Contains(ref, "/") {
			ref = strings.TrimPrefix(ref, "https://")
			client, cerr := storecmd.Client(a.Streams, a.at.Getenv)
			if cerr != nil {
				return cerr
			}
			b.place, _, _ = strings.Cut(ref, "@")
			if i := strings.LastIndexByte(b.place, ':'); i > strings.LastIndexByte(b.place, '/') {
				b.place = b.place[:i]
			}
			b.digest, _, err = s.Pull(ctx, client, ref)
		}
		if err != nil {
			return err
		}
		e, err := s.Entry(b.digest)
		if err != nil {
			return err
		}
		b.record = e.Record
		found, err := s.Verify(ctx, b.digest, func(dir string) error { return b.read(dir) })
		if err == nil && found.Problem != "" {
			err = fault.New(fault.Invalid, "the bundle %s fails a check: %s", bundle.Short(b.digest), found.Problem)
		}
		b.signed = found.SignedBy
		return err
	})
	if err == nil && len(replication.Claims(b.results)) == 0 {
		err = fault.WithFix(fault.New(fault.Invalid, "run %s has no verdict that could be replicated",
			safetext.Line(b.record.Run)), "name another run: bakeoff store list")
	}
	return b, err
}

// read computes every number of an unpacked run again, and reads what replicate needs.
func (b *foreign) read(dir string) error {
	if err := storecmd.Recompute(dir); err != nil {
		return err
	}
	run, err := labstore.Open(dir)
	if err != nil {
		return err
	}
	defer run.Close()
	text, err := run.Plan()
	if err == nil {
		b.plan, err = plan.Decode(text)
	}
	if err == nil {
		b.source, err = run.Lab()
	}
	if err == nil && !b.plan.MadeFrom(b.source) {
		err = fault.New(fault.Invalid, "the plan was made from another lab file")
	}
	if err != nil {
		return err
	}
	if text, err = run.Results(); err == nil {
		b.results, err = analysis.ParseResults(text)
	}
	return err
}

// foreignLab is the lab of a bundle, with its profile, cells and files, on hosts that were
// named, and with those images that the bundle has for this architecture. It connects to
// nothing.
func (a *app) foreignLab(f replicateFlags, b foreign) (*manifest.Lab, error) {
	folder := f.files
	if folder == "" { // a name that does not exist: what the lab file names is not looked up in a folder of this person
		folder = filepath.Join(storecmd.Folder(a.Env, f.store), "no-files")
	} else if _, err := os.Stat(folder); err != nil {
		return nil, fault.Wrap(fault.NotFound, "--files", err)
	}
	lab, err := manifest.Parse(filepath.Join(folder, labName), b.source, session.Catalogue(), b.plan.Profile)
	if err != nil {
		return nil, fault.Op("this program refuses the lab file of the bundle", err)
	}
	if err := lab.Keep(b.plan.Only); err != nil {
		return nil, err
	}
	if err := bindForeign(lab, f); err != nil {
		return nil, err
	}
	b.plan.Record(lab)
	if f.budget > 0 {
		lab.FollowBudget(f.budget)
	}
	for _, file := range inputs.Files(lab) {
		switch digest := lab.Packed[file.Key()].Digest; {
		case a.at.Images(nil).Packed(digest) != "":
		case f.files == "":
			return nil, fault.WithFix(fault.New(fault.NotFound,
				"the lab file places the file %s (%.19s…) in environments, but the bundle does not contain it",
				safetext.Line(file.From), digest), "name the folder that has it: --files FOLDER")
		case !filepath.IsLocal(file.From):
			return nil, fault.New(fault.Invalid, "the lab file places the file %s in environments, but this path is "+
				"not below the folder of --files",
				safetext.Line(file.From))
		}
	}
	for name := range lab.Pinned {
		if !b.hasImage(lab, name) {
			delete(lab.Pinned, name)
		}
	}
	return lab, nil
}

// hasImage reports whether the bundle has the digest of an image for this architecture.
func (b foreign) hasImage(lab *manifest.Lab, name string) bool {
	return lab.Pinned[name].Digest != "" && b.record.Machine["arch"] == runtime.GOARCH
}

// pinForeign looks up the images of a lab for which foreignLab has no digest. A stranger
// named their registries: it is called after the question.
func (a *app) pinForeign(ctx context.Context, lab *manifest.Lab, b foreign) error {
	own := lab.Pinned
	if !slices.ContainsFunc(b.plan.Contenders, func(c plan.Contender) bool {
		return c.Pinned != nil && own[c.Image].Digest == ""
	}) {
		return nil
	}
	lab.Pinned = map[string]manifest.Pinned{}
	_, err := inputs.Pin(ctx, a.at.Images(nil), lab, a.NoteProgress)
	maps.Copy(lab.Pinned, own)
	return err
}

// bindForeign gives the hosts of a foreign lab file the addresses that were named, and
// refuses all others.
func bindForeign(lab *manifest.Lab, f replicateFlags) error {
	bound := map[string]bool{"local": true}
	for _, x := range f.bind {
		name, address, ok := strings.Cut(x, "=")
		if !ok || address == "" {
			return fault.New(fault.Invalid, "--bind must be NAME=ADDRESS (got %q)", x)
		}
		if err := lab.Bind(name, address); err != nil {
			return err
		}
		bound[name] = true
	}
	if open := lab.Unbound(); len(open) > 0 {
		return fault.WithFix(fault.New(fault.Invalid,
			"host %s of the lab file has no address, because it comes from the pool %s", open[0],
			safetext.Line(lab.Hosts[open[0]].Pool)),
			fmt.Sprintf("name one of yours: --bind %s=ADDRESS, or --bind %s=local", open[0], open[0]))
	}
	for _, name := range lab.HostNames() {
		if !bound[name] && !slices.Contains(f.connect, name) {
			return fault.WithFix(fault.New(fault.Invalid,
				"the lab file connects to %s (host %s), and that machine may belong to somebody else",
				safetext.Line(lab.Hosts[name].SSH), name), "if it is yours, add --connect "+name)
		}
	}
	return nil
}

// runForeign runs the lab of a bundle as bakeoff run does. It returns the run folder if the
// run ended as a whole.
func (a *app) runForeign(c *cobra.Command, lab *manifest.Lab, b foreign, seed uint64,
	f replicateFlags) (string, error) {
	s, err := session.New(lab, seed, versionString(), f.out)
	if err != nil {
		return "", err
	}
	labels := map[string]string{"replicates": b.digest}
	for k, v := range f.labels {
		labels[k] = v
	}
	how := runFlags{budget: f.budget, labels: labels, out: f.out, quiet: f.json}
	if f.json {
		how.answer = func(analysis.Results, string) error { return nil }
	}
	err = a.carryOut(c, s, how)
	var end cli.Exit
	if err == nil || errors.As(err, &end) && end.Code == cli.ExitMissing {
		return s.Dir, err
	}
	if s.Started() {
		err = errors.Join(err, fault.New(fault.Lab, "when the run has ended, run bakeoff replicate %s --run %s",
			bundle.Short(b.digest), s.Dir))
	}
	return "", err
}

// judgeReplication adds the second run to the store, judges the verdicts by it, and prints
// the result.
func (a *app) judgeReplication(ctx context.Context, f replicateFlags, b foreign, out *replicated) error {
	return a.withStore(ctx, f, func(s *archive.Store) error {
		run, _, _, err := s.Add(ctx, out.Folder)
		if err != nil {
			return err
		}
		r, err := s.Replicate(ctx, b.digest, run)
		if err != nil {
			return err
		}
		r = r.Clean()
		sum := r.Summary()
		out.Result, out.Summary, out.Signed = &r, &sum, s.Config.Key != ""
		if f.push {
			client, err := storecmd.Client(a.Streams, a.at.Getenv)
			for _, d := range []string{run, b.digest} {
				if err == nil {
					_, err = s.Push(ctx, client, d, b.place)
				}
			}
			if err != nil {
				return fault.WithFix(fault.Op("the result is in the store, but it was not sent", err),
					"run bakeoff store push "+bundle.Short(run)+" "+bundle.Short(b.digest))
			}
		}
		if f.json {
			return a.PrintJSON(out)
		}
		all, err := s.Replications(ctx, b.digest)
		if err == nil {
			a.printReplication(r, out.Signed, all)
		}
		return err
	})
}

// mostFacts is how many facts replicate prints; --json has all.
const mostFacts = 20

func (a *app) printReplication(r archive.Replication, signed bool, all archive.Replications) {
	a.Heading("Replication")
	t := cli.NewTable("  CONTENDER", "CELL", "METRIC", "THERE", "HERE", "OUTCOME", "WHY")
	for _, c := range r.Comparisons {
		color := map[replication.Outcome]cli.Color{replication.Holds: cli.Green, replication.Fails: cli.Red}[c.Outcome]
		t.Add(cli.Plain("  "+c.Contender), cli.Plain(c.Cell), cli.Plain(c.Metric), cli.Plain(sideText(c.There)),
			cli.Plain(sideText(c.Here)), cli.Colored(string(c.Outcome), color), cli.Plain(c.Reason))
	}
	a.PrintWide(t)
	facts := r.Explain()
	if len(facts) > 0 {
		a.Heading("Facts that differ")
	}
	for _, fact := range facts[:min(len(facts), mostFacts)] {
		fmt.Fprintln(a.Out, "  "+fact)
	}
	if more := len(facts) - mostFacts; more > 0 {
		fmt.Fprintf(a.Out, "  and %s more; --json prints all\n", unit.Count(more, "fact"))
	}
	fmt.Fprintln(a.Out)
	fmt.Fprintln(a.Out, r.Summary())
	if !signed {
		fmt.Fprintln(a.Out, "the result is not signed: the store has no key (key in store.json)")
	}
	fmt.Fprintln(a.Out, "all results of this bundle: "+all.String())
}

// sideText is a verdict with its ratio.
func sideText(s replication.Side) string {
	text := cmp.Or(string(s.Verdict), "unknown")
	if s.Ratio != nil {
		text += fmt.Sprintf(" (%.3g)", *s.Ratio)
	}
	return text
}
