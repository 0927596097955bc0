package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/countboot"
	"bakeoff/publish/difference"
	"bakeoff/reach/conn"
)

// guestFlags are the flags that describe a guest on the instruction clock.
type guestFlags struct {
	kernel, initrd, image string
	machine, ready        string
	append                []string
	options               []string
	memory                string
}

// declareFlags declares the flags. where says what the paths are relative to.
func (f *guestFlags) declareFlags(c *cobra.Command, where string) {
	fl := c.Flags()
	fl.StringVar(&f.kernel, "kernel", "", "`file` of the kernel"+where)
	fl.StringVar(&f.initrd, "initrd", "", "`file` of the initial RAM disk"+where+
		"; without this file, the boot ends at the first userland instruction")
	fl.StringVar(&f.image, "image", "", "boot the kernel of this `image`, such as debian:bookworm, instead of --kernel")
	fl.StringVar(&f.machine, "machine", "microvm", "`type` of the machine: microvm or q35")
	fl.StringArrayVar(&f.append, "append", nil, "`words` for the kernel's command line; may be repeated")
	fl.StringVar(&f.ready, "until", "", "mark:`NAME`: the boot ends when the guest runs /.bakeoff/mark NAME")
	fl.StringArrayVar(&f.options, "option", nil, "set an option of the driver qemu, as `NAME=VALUE`; may be repeated")
	fl.StringVar(&f.memory, "memory", countboot.DefaultMemory.String(), "memory of the guest, a `size` such as 256MiB")
}

// guestTime is the time limit of a boot unless --option names another: counting makes
// emulation slower, and a busy machine even more.
const guestTime = "3m0s"

// guestIn is the guest of the flags, with its files in dir.
func (f guestFlags) guestIn(dir string) (countboot.Guest, error) {
	g := countboot.Guest{Image: f.image, Append: f.append}
	var err error
	if g.Memory, err = unit.ParseBytes(f.memory); err != nil {
		return g, fault.New(fault.Invalid, "--memory: %w", err)
	}
	if (f.kernel == "") == (f.image == "") {
		return g, fault.New(fault.Invalid, "name either --kernel or --image")
	}
	d, err := driverNamed("qemu")
	if err != nil {
		return g, err
	}
	given := append([]string{"machine=" + f.machine, "boot-timeout=" + guestTime}, f.options...)
	if f.ready != "" {
		given = append(given, "ready="+f.ready)
	}
	if g.Options, err = optionsOf(d.Doc(), given); err != nil {
		return g, err
	}
	for file, to := range map[string]*string{f.kernel: &g.Kernel, f.initrd: &g.Initrd} {
		if *to = file; file != "" && !filepath.IsAbs(file) {
			*to = filepath.Join(dir, file)
		}
	}
	return g, nil
}

// bisectFlags are the flags of boot bisect.
type bisectFlags struct {
	guestFlags
	threshold float64
	json      bool
}

func (a *app) bootBisect() *cobra.Command {
	var f bisectFlags
	c := &cobra.Command{
		Use:   "bisect GOOD BAD [flags] -- BUILD [ARG…]",
		Short: "Find the commit that made a boot longer",
		Long: `bisect finds the first commit between GOOD and BAD that makes a boot take more instructions.
It works in the git repository of the current folder. For each commit that it tries, it
checks the commit out into a separate work tree and runs BUILD there. Then it boots the
kernel and the RAM disk that BUILD made, in an emulated machine whose clock counts executed
instructions (the instruction clock). Repeated boots of this machine take exactly the same
number of instructions; bisect checks this by booting GOOD twice. One boot per commit is
therefore enough, even on a busy host. n commits take about log2(n) boots.

The boot ends at the first userland instruction. With --until mark:NAME, it ends when the
guest runs /.bakeoff/mark NAME. bakeoff puts that program into the RAM disk.

A commit is bad if its boot is longer than the boot of GOOD by at least --threshold. The
default threshold is half of the difference between GOOD and BAD. bisect skips a commit
whose build fails or whose guest does not boot.`,
		Example: `  bakeoff boot bisect v6.1 HEAD --kernel arch/x86/boot/bzImage -- make -j2 bzImage
  bakeoff boot bisect HEAD~16 HEAD --image debian:bookworm --initrd out.cpio --until mark:ready -- ./build.sh
  bakeoff boot bisect v1 v2 --kernel bzImage --threshold 0.1% --json -- make`,
		Args: func(c *cobra.Command, args []string) error {
			if at := c.ArgsLenAtDash(); at != 2 || len(args) < 3 {
				return fault.WithFix(fault.New(fault.Invalid, "bisect needs the commits GOOD and BAD, and a build "+
					"command after --"),
					"see bakeoff boot bisect --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.doBisect(c, f, args) },
	}
	f.declareFlags(c, ", relative to the work tree")
	c.Flags().Var((*cli.Share)(&f.threshold), "threshold",
		"smallest `share` by which the boot of a bad commit is longer than the boot of GOOD (default: half of "+
			"the difference between GOOD and BAD)")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object, and progress on standard error")
	return c
}

// bisectSchema is that of what boot bisect prints with --json.
const bisectSchema = "bakeoff/boot-bisect/v1"

// bisected is what boot bisect found.
type bisected struct {
	Schema string `json:"schema"`
	// Commit is the first commit beyond the limit, and Before the last one below it that
	// could be measured.
	Commit bisectedStep `json:"commit"`
	Before bisectedStep `json:"before"`
	// Added is how many instructions Commit added, Share that of those before.
	Added   int64          `json:"added"`
	Share   float64        `json:"share"`
	Good    bisectedStep   `json:"good"`
	Bad     bisectedStep   `json:"bad"`
	Limit   int64          `json:"limit"`
	Skipped []bisectedStep `json:"skipped"`
	Commits int            `json:"commits"`
	Tried   int            `json:"tried"`
	Boots   int            `json:"boots"`
	// Parts says in which part of the boot the instructions were added, and Spans in which
	// initcalls of the kernel; Spans is null if that is unknown, for which SpansReason
	// says why.
	Parts       []countboot.Part `json:"parts"`
	Spans       []countboot.Span `json:"spans"`
	SpansReason string           `json:"spans_reason,omitempty"`
}

type bisectedStep struct {
	Commit       string `json:"commit"`
	Subject      string `json:"subject"`
	Instructions *int64 `json:"instructions"` // null: unknown, see Reason
	Reason       string `json:"reason,omitempty"`
}

func (a *app) doBisect(c *cobra.Command, f bisectFlags, args []string) (err error) {
	ctx, stop := a.Interruptible(c.Context())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := f.guestIn(dir); err != nil {
		return err
	}
	history, err := countboot.OpenHistory(ctx, dir, args[0], args[1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, history.Close()) }()
	booter, err := countboot.Open(ctx, a.at, "boot bisect", a.NoteProgress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, booter.Close()) }()
	fmt.Fprintf(a.Err, "%s from %s to %s\n", history, args[0], args[1])
	kept, err := os.MkdirTemp("", "bakeoff-bisect")
	if err != nil {
		return err
	}
	defer os.RemoveAll(kept)
	b := bisecting{app: a, flags: f, history: history, booter: booter, build: args[2:], kept: kept,
		boots: map[string]countboot.Boot{}}
	search := countboot.Search{Commits: history.Commits, Share: f.threshold, Cost: b.measureCost, Tell: b.printStep}
	found, err := search.Run(ctx)
	if err != nil {
		return err
	}
	out := b.describeFound(ctx, found)
	if err := b.compareSpans(ctx, &out); err != nil {
		return err
	}
	if f.json {
		return a.PrintJSON(out)
	}
	a.printBisected(out)
	return nil
}

// bisecting is a search in progress.
type bisecting struct {
	*app
	flags   bisectFlags
	history *countboot.History
	booter  *countboot.Booter
	build   []string
	kept    string                    // folder with what was booted of each commit
	boots   map[string]countboot.Boot // by commit
}

// buildLog bounds what is kept of the output of a build, in bytes.
const buildLog = 64 << 10

// measureCost builds and boots a commit; the first one twice, to check that boots agree.
func (b *bisecting) measureCost(ctx context.Context, commit string) (int64, error) {
	var log conn.Tail
	log.Limit = buildLog
	dir, err := b.history.Build(ctx, commit, b.build, &log)
	if err != nil {
		if last := safetext.LastLines(string(bytes.TrimSpace(log.Bytes())), 5); last != "" {
			err = fault.New(fault.Of(err), "%w\nthe end of its output:\n%s", err, last)
		}
		return 0, err
	}
	g, err := b.flags.guestIn(dir)
	if err != nil {
		return 0, err
	}
	boot := b.booter.Boot
	if len(b.boots) == 0 {
		boot = b.booter.Twice
	}
	booted, err := boot(ctx, g)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Subject, "the build command did not create a file that the boot needs: %w", err)
	}
	if err != nil {
		return 0, err
	}
	b.boots[commit] = booted
	return booted.Instructions(), b.keepBooted(commit, g)
}

// keepBooted copies what was booted of a commit: the next build overwrites it.
func (b *bisecting) keepBooted(commit string, g countboot.Guest) error {
	for name, file := range map[string]string{keptKernel: g.Kernel, keptInitrd: g.Initrd} {
		if file == "" {
			continue
		}
		data, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(b.kept, commit+name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The ends of the names of kept files.
const (
	keptKernel = ".kernel"
	keptInitrd = ".initrd"
)

// compareSpans boots both sides of the commit that was found once more, with the messages of
// initcalls, and says which ones grew by a hundredth of what the commit added to the
// kernel's part.
func (b *bisecting) compareSpans(ctx context.Context, r *bisected) error {
	if len(r.Parts) == 0 || 2*(r.Parts[0].After-r.Parts[0].Before) < r.Added {
		r.SpansReason = "most of the difference is not in the kernel's part of the boot"
		return nil
	}
	var boots [2]countboot.Boot
	for i, commit := range []string{r.Before.Commit, r.Commit.Commit} {
		g, err := b.flags.guestIn("")
		if err != nil {
			return err
		}
		g.Append = append(g.Append, countboot.SpanWords...)
		if g.Kernel != "" {
			g.Kernel = filepath.Join(b.kept, commit+keptKernel)
		}
		if g.Initrd != "" {
			g.Initrd = filepath.Join(b.kept, commit+keptInitrd)
		}
		if boots[i], err = b.booter.Boot(ctx, g); fault.Is(err, fault.Subject) {
			r.SpansReason = "the guest does not boot with initcall_debug"
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.Boots = b.booter.Boots
	grown, err := countboot.Grown(boots[0], boots[1], max(1000, r.Added/100))
	if err != nil {
		r.SpansReason = "the messages of the guest cannot be read: " + safetext.Line(err.Error())
		return nil
	}
	r.Spans = grown
	if len(grown) == 0 {
		r.Spans, r.SpansReason = nil, "no initcall grew by a hundredth of the difference"
	}
	return nil
}

// printStep prints a step.
func (b *bisecting) printStep(s countboot.Step) {
	what := unit.Format(float64(s.Cost), unit.Instruction)
	if s.Failed != "" {
		what = "skipped: " + safetext.LastLines(s.Failed, 1)
	}
	fmt.Fprintf(b.Err, "  %-28s %s\n", what, b.history.Subject(context.Background(), s.Commit))
}

// describeFound describes what was found.
func (b *bisecting) describeFound(ctx context.Context, f countboot.Found) bisected {
	step := func(s countboot.Step) bisectedStep {
		out := bisectedStep{Commit: s.Commit, Subject: b.history.Subject(ctx, s.Commit), Reason: s.Failed}
		if s.Failed == "" {
			out.Instructions = &s.Cost
		}
		return out
	}
	out := bisected{Schema: bisectSchema, Commit: step(f.First), Before: step(f.Before), Good: step(f.Good),
		Bad: step(f.Bad), Added: f.Added(), Share: float64(f.Added()) / float64(f.Before.Cost), Limit: f.Limit,
		Skipped: []bisectedStep{}, Commits: len(b.history.Commits), Tried: f.Tried, Boots: b.booter.Boots,
		Parts: countboot.Parts(b.boots[f.Before.Commit], b.boots[f.First.Commit])}
	for _, s := range f.Skipped {
		out.Skipped = append(out.Skipped, step(s))
	}
	return out
}

func (a *app) printBisected(r bisected) {
	s := a.Style(a.Out)
	fmt.Fprintf(a.Out, "%s is the first commit with the longer boot\n", s.Paint(cli.Bold, safetext.Line(r.Commit.Subject)))
	fmt.Fprintf(a.Out, "  commit  %s\n  cost    %s (%s)\n", r.Commit.Commit,
		difference.Amount(float64(r.Added), unit.Instruction), difference.Ratios().Text(1+r.Share))
	for _, p := range r.Parts {
		fmt.Fprintf(a.Out, "  %s\n", p)
	}
	for _, g := range r.Spans {
		fmt.Fprintf(a.Out, "    %s: %s\n", safetext.Line(g.Path),
			difference.Amount(float64(g.After-g.Before), unit.Instruction))
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(a.Out, "  or one of the %d commits before it, which could not be measured:\n", len(r.Skipped))
		for _, k := range r.Skipped {
			fmt.Fprintf(a.Out, "    %s: %s\n", k.Subject, safetext.LastLines(k.Reason, 1))
		}
	}
	fmt.Fprintf(a.Out, "%d of %d commits were built and booted, in %d boots; repeated boots agree exactly\n", r.Tried,
		r.Commits, r.Boots)
}
