package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/judge/analysis"
	"bakeoff/lab/bootruns"
	"bakeoff/lab/compose"
	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
	model "bakeoff/measure/boot"
	"bakeoff/measure/workload/boot"
	bootrunner "bakeoff/measure/workload/boot/runner"
	"bakeoff/provision/guest/qemu"
	"bakeoff/publish/report"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/readiness"
)

// recordFlags are the flags of boot record.
type recordFlags struct {
	runFlags
	compose.RecordRequest
	printLab bool
	host     string
	port     int
	to       string
	choice   offline.BootChoice
	plan     bool
}

func (a *app) bootRecord() *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use:   "record [ENV…|FILE…] [flags] [-- SERVICE [ARG…]]",
		Short: "Boot environments and record where the time goes, or read the record of a machine",
		Long: `record boots every environment ENV in turn, as often as --boots says, and writes a run
folder. ENV is DRIVER[:IMAGE], as in microvm:debian:bookworm or firecracker:debian:bookworm.
Every trial boots a new environment. record stores what is visible from outside: the start
of the hypervisor and of the processor, the end of the firmware, and the first byte on the
serial line. It also stores the log of the kernel and what systemd recorded. At the end of
every boot, record compares the clock of the environment with that of this machine, and
stores the uncertainty of this comparison.

record boots a Linux kernel with initcall_debug: the kernel then logs each of its initcalls.
The logging itself takes some time. Use --plain to time a boot without the logging, and for
kernels other than Linux.

--option sets an option of the driver for every environment. --variant adds a copy of every
environment with another value of an option, so that boot compare can compare the two. A
command after -- starts a service in the environment, and --answer says how record detects
that the service is ready.

With --host, record reads over SSH what a running machine recorded about its last boot. It
changes nothing on that machine, except that it leaves a copy of bakeoff-agent in the
machine's cache of bakeoff.

With FILE, record makes one recording from the files of one boot. It recognizes the format
of each file, unless --source names the format.`,
		Example: `  bakeoff boot record microvm:debian:bookworm
  bakeoff boot record microvm:debian:bookworm q35:debian:bookworm --boots 10
  bakeoff boot record microvm --option kernel=/srv/vmlinuz --option initrd=/srv/initrd.img
  bakeoff boot record microvm:debian:bookworm --variant selftests:append=cryptomgr.notests=0
  bakeoff boot record crun:debian:bookworm --answer tcp:8080 -- python3 -m http.server 8080
  bakeoff boot record --host root@build7 --to build7.boot.json
  bakeoff boot record dmesg.txt --to boot.json`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(c *cobra.Command, args []string) error { return a.doRecord(c, f, args) },
	}
	fl := c.Flags()
	fl.IntVar(&f.Boots, "boots", 5, "`number` of boots of each environment")
	fl.StringArrayVar(&f.Options, "option", nil, "set an option of the driver, as `NAME=VALUE`; may be repeated")
	fl.StringArrayVar(&f.Variants, "variant", nil, "add a copy of every environment, called NAME, with another "+
		"value of an option: `NAME:OPTION=VALUE`; may be repeated")
	fl.StringVar(&f.Answer, "answer", "",
		"the service is ready when this port answers: `tcp:PORT`, http:PORT/PATH or ssh:PORT")
	fl.BoolVar(&f.Plain, "plain", false, "boot without initcall_debug, so the kernel logs no initcalls")
	fl.StringVar(&f.CPUs, "cpus", "", "`number` of CPUs of each environment (default 1)")
	fl.StringVar(&f.Memory, "memory", "", "memory of each environment, a `size` such as 2GiB (default 512MiB)")
	fl.DurationVar(&f.budget, "budget", 0, "`time` limit; bakeoff starts no block (round of trials) that would exceed it")
	fl.StringVar(&f.out, "out", "runs", "`folder` in which to create the run folder")
	fl.Uint64Var(&f.seed, "seed", 0, "`number` from which record derives the random schedule; with 0, bakeoff "+
		"chooses and records a number")
	fl.BoolVar(&f.printLab, "print-lab", false, "print the lab file and start nothing")
	fl.StringVar(&f.host, "host", "", "read the recorded boot of the machine that ssh reaches as `USER@HOST`")
	fl.IntVar(&f.port, "port", 0, "SSH `port` of the machine in --host")
	fl.BoolVar(&f.plan, "plan", false, "with --host: print what record would read, and connect to nothing")
	fl.StringVar(&f.to, "to", "", "with --host or FILE: write the recording to a new `file` (default: standard output)")
	fl.BoolVar(&f.json, "json", false, "print the results as one JSON object, and progress on standard error")
	offline.SourceFlag(c, &f.choice.Source)
	return c
}

func (a *app) doRecord(c *cobra.Command, f recordFlags, args []string) error {
	f.Envs = args
	if at := c.ArgsLenAtDash(); at >= 0 {
		f.Envs, f.Argv = args[:at], args[at:]
	}
	files := lists.Filter(f.Envs, isFile)
	switch {
	case f.host != "" && len(args) > 0:
		return cli.Usage(c, errors.New("--host names the machine to read; remove the other arguments"))
	case f.host != "":
		return a.recordHost(c.Context(), f)
	case len(files) > 0 && len(files) < len(f.Envs):
		return cli.Usage(c, fmt.Errorf("%s is a file, and the other arguments are environments; name files or "+
			"environments, not both",
			safetext.Line(files[0])))
	case len(files) > 0:
		return a.recordFiles(f, files)
	case f.to != "" || f.choice.Source != "" || f.plan:
		return cli.Usage(c, errors.New("--to and --source need --host or FILE, and --plan needs --host"))
	}
	return a.recordBoots(c, f)
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// recordBoots boots environments in a run.
func (a *app) recordBoots(c *cobra.Command, f recordFlags) error {
	switch {
	case f.Boots < 1:
		return cli.Usage(c, fmt.Errorf("--boots must be at least 1 (got %d)", f.Boots))
	case f.budget < 0:
		return cli.Usage(c, fmt.Errorf("--budget must be positive (got %v)", f.budget))
	case f.Answer == "" && len(f.Argv) > 0:
		return cli.Usage(c, errors.New("bakeoff cannot tell when the service after -- is ready; write --answer "+
			readiness.Forms))
	case f.Answer != "":
		if _, err := readiness.Parse(f.Answer); err != nil {
			return cli.Usage(c, fault.Op("--answer", err))
		}
	}
	f.Line = slices.DeleteFunc(slices.Clone(a.line), func(w string) bool { return w == "--print-lab" })
	f.SystemOf = func(kernel string) string {
		// A file that cannot be read is an error of the plan, which names the host.
		k, _ := qemu.ReadKernelFile(c.Context(), local.Conn{}, nil, kernel)
		return k.System
	}
	file, err := compose.Record(f.RecordRequest, session.Catalogue())
	if err != nil {
		return cli.Usage(c, err)
	}
	lab, err := file.Load(session.Catalogue())
	if err != nil {
		return usages(c, err)
	}
	if f.printLab {
		_, err := a.Out.Write(file.Text)
		return err
	}
	if f.seed == 0 {
		f.seed = session.DrawSeed()
	}
	if _, err := a.recordSources(c.Context(), lab); err != nil {
		return err
	}
	s, err := session.New(lab, f.seed, versionString(), f.out)
	if err != nil {
		return err
	}
	s.Words = file.Explain
	out := a.Out
	if f.json {
		out = a.Err
	}
	for _, line := range f.CommandLines(session.Catalogue()) {
		fmt.Fprintln(out, safetext.Line(line))
	}
	f.boots, f.words = len(s.Plan.Contenders)*f.Boots, recordWords
	f.answer = func(r analysis.Results, page string) error {
		if err := offline.PrintAnswer(a.Streams, report.Brief, r, page, f.sort); err != nil {
			return err
		}
		return a.printRecorded(s.Dir)
	}
	return a.carryOut(c, s, f.runFlags)
}

// recordWords says the advice of lab files in the flags of boot record.
var recordWords = strings.NewReplacer("increase design.looks or design.blocks", "increase --boots")

// printRecorded says what the boots of a run recorded.
func (a *app) printRecorded(dir string) error {
	boots, err := offline.BootsOf(dir)
	if err != nil {
		return err
	}
	a.Heading("Recordings")
	t := cli.NewTable("  contender", "boots", "spans", "marks", "notes")
	for _, name := range bootruns.Contenders(boots) {
		of := lists.Filter(boots, func(b bootruns.Boot) bool { return b.Contender == name })
		first := of[0].Recording
		t.Add(cli.Plain("  "+name), cli.Plain(fmt.Sprint(len(of))), cli.Plain(fmt.Sprint(len(first.Spans))),
			cli.Plain(fmt.Sprint(len(first.Marks))), cli.Plain(cmp.Or(lostNotes(first), "–")))
	}
	a.Print(t)
	of, choice, where := recordedSides(boots), "", shell.Quote(dir)
	if len(bootruns.Contenders(boots)) > 1 {
		choice = " --contender " + shell.Quote(of[0])
	}
	fmt.Fprintf(a.Out, "\nbakeoff boot show %s%s shows where the time goes.\n", where, choice)
	if len(of) > 1 {
		fmt.Fprintf(a.Out, "bakeoff boot compare %s %s %s shows which parts take longer.\n", where, shell.Quote(of[0]),
			shell.Quote(of[1]))
	}
	return nil
}

// recordedSides are the contenders of boots without the twin, the baseline first. Boots are in
// random order.
func recordedSides(boots []bootruns.Boot) []string {
	all := bootruns.Contenders(boots)
	of := slices.DeleteFunc(slices.Clone(all), func(c string) bool { return strings.HasSuffix(c, name.TwinSuffix) })
	if len(of) == 0 {
		return all
	}
	if b, ok := lists.Find(boots, func(b bootruns.Boot) bool { return b.Baseline }); ok {
		of = append([]string{b.Contender}, slices.DeleteFunc(of, func(c string) bool { return c == b.Contender })...)
	}
	return of
}

// lostNotes are those of a recording that say what is missing.
func lostNotes(r bootmodel.Recording) string {
	lost := lists.Filter(r.Notes, func(n bootmodel.Note) bool { return n.Lost })
	return strings.Join(lists.Map(lost, func(n bootmodel.Note) string { return n.Source + ": " + safetext.Line(n.Text) }),
		" ")
}

// recordFiles makes one recording of the files of one boot.
func (a *app) recordFiles(f recordFlags, files []string) error {
	var r bootmodel.Recording
	for i, name := range files {
		next, err := offline.ReadBoot(a.In, name, f.choice)
		if err == nil && i > 0 {
			next, err = bootmodel.Merge(r, next)
			err = fault.Op(name, err)
		}
		if err != nil {
			return err
		}
		r = next
	}
	return a.keepRecording(f, r)
}

// keepRecording writes a recording to a new file or to standard output.
func (a *app) keepRecording(f recordFlags, r bootmodel.Recording) error {
	var text bytes.Buffer
	if err := model.Write(&text, r); err != nil {
		return err
	}
	if f.to == "" {
		_, err := a.Out.Write(text.Bytes())
		return err
	}
	out, err := os.OpenFile(f.to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fault.WithFix(fault.New(fault.Invalid, "--to: %s exists already", f.to), "name a new file")
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, "--to", err)
	}
	_, err = out.Write(text.Bytes())
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(fault.Wrap(fault.Lab, "--to", err), os.Remove(f.to))
	}
	said := fmt.Sprintf("%d spans, %d marks", len(r.Spans), len(r.Marks))
	if lost := lostNotes(r); lost != "" {
		said += ". " + lost
	}
	fmt.Fprintf(a.Err, "wrote %s: %s\n", f.to, said)
	return nil
}

// recordHost reads what a machine recorded about its last boot.
func (a *app) recordHost(ctx context.Context, f recordFlags) error {
	fmt.Fprintf(a.Err, "%s: bakeoff copies bakeoff-agent to the cache there if it is missing, reads the kernel "+
		"log, systemd's records and debug.tslog, and changes nothing else\n", safetext.Line(f.host))
	if f.plan {
		return nil
	}
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	progress := func(text string) { fmt.Fprintln(a.Err, safetext.Line(text)) }
	to, err := a.at.Dial(ctx, f.host, manifest.Host{SSH: f.host, Port: f.port}, progress)
	if err != nil {
		return err
	}
	defer to.Close()
	out, err := bootrunner.ReadSystem(ctx, to, to.Agent())
	if err != nil {
		return fault.Op(f.host, err)
	}
	logs, err := boot.ParseSystem(out)
	if err != nil {
		return fault.Op(f.host, err)
	}
	r, err := boot.OfSystem(logs)
	if err != nil {
		return fault.Op(f.host, err)
	}
	return a.keepRecording(f, r)
}
