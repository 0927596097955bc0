package compose

import (
	"cmp"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/shell"
	"bakeoff/base/yamltree"
	"bakeoff/lab/manifest"
)

// Request is what a person types after bakeoff try.
type Request struct {
	Line []string // the whole command line, for the first comment; may be empty
	// Envs are arguments and In values of --in: DRIVER[:IMAGE]. Without any, the
	// commands run on the host.
	Envs, In []string
	// Name is the name of the lab; "" names it after the commands.
	Name string
	// Argv is what follows --. Commands are values of -c, and Names those of -n. Shell is
	// the shell that runs Commands, or NoShell.
	Argv, Commands, Names []string
	Shell                 string
	// Lists and Ranges are values of -L and -P.
	Lists, Ranges []string
	// Setup, Prepare and Cleanup have one command, or one for each of Commands.
	Setup, Prepare, Cleanup []string
	// Files are values of --file: PATH[:TO].
	Files         []string
	IgnoreFailure bool
	Metrics       []string // values of --metric
	Margin        float64  // a share; 0: the default
	Budget        time.Duration
	CPUs, Memory  string   // "": the default
	Packages      []string // values of --package: names, parted by commas
	// Dir is the current folder, and Exists reports whether it has a file. Commands run
	// in it if all environments are the host.
	Dir    string
	Exists func(name string) bool
}

// Cell is the name of the one cell of the lab file that Try writes.
const Cell = "try"

// The parameters of the workload command that a command line sets.
const (
	argvKey    = "argv"
	setupKey   = "prepare"
	prepareKey = "reset"
	cleanupKey = "cleanup"
)

// contender is an environment with the commands that run in it.
type contender struct {
	name   string
	env    Env
	params map[string][]string
	words  map[string]string // parameter → the flag or argument that it comes from
	curve  *sweep            // it stands for one contender for each value; may be nil
}

// Try writes the lab file for a command line. The first environment with the first
// command and the first values is the baseline. An error is of kind fault.Invalid and
// names the argument or flag.
func Try(r Request, cat manifest.Catalogue) (File, error) {
	if err := r.encoded(); err != nil {
		return File{}, err
	}
	r = r.withQuotedCommands(cat)
	if _, _, err := r.commands(); err != nil { // before a command that stands for an environment
		return File{}, err
	}
	sweeps, err := r.sweeps() // before the values of -L NAME VALUES, which seem to be environments
	if err != nil {
		return File{}, err
	}
	envs, err := r.envs(cat)
	if err != nil {
		return File{}, err
	}
	metrics, err := parseMetrics(r.Metrics)
	if err != nil {
		return File{}, err
	}
	placed, err := parseFiles(r.Files)
	if err != nil {
		return File{}, err
	}
	contenders, err := r.contenders(envs, sweeps)
	if err != nil {
		return File{}, err
	}
	f := File{Notes: r.unseen(contenders, placed), words: map[string]string{"cpus": "--cpus", "memory": "--memory",
		"packages": "--package",
		argvKey:    "the command", setupKey: "--setup", prepareKey: "--prepare", cleanupKey: "--cleanup"}}
	w := &writer{}
	r.write(w, contenders, placed, metrics)
	f.files = placed
	f.Text, f.lines = []byte(w.text.String()), w.lines
	return f, nil
}

// encoded refuses words that a lab file cannot hold.
func (r Request) encoded() error {
	for _, of := range []struct {
		what  string
		words []string
	}{
		{"an environment", slices.Concat(r.Envs, r.In)}, {"the command after --", r.Argv}, {"-c", r.Commands},
		{"--shell", []string{r.Shell}}, {"-L", r.Lists}, {"-P", r.Ranges}, {"--setup", r.Setup}, {"--prepare", r.Prepare},
		{"--cleanup", r.Cleanup}, {"--metric", r.Metrics}, {"--file", r.Files}, {"--cpus", []string{r.CPUs}},
		{"--memory", []string{r.Memory}}, {"--package", r.Packages}, {"--name", []string{r.Name}},
		{"the current folder", []string{r.Dir}},
	} {
		if slices.ContainsFunc(of.words, func(w string) bool { return !utf8.ValidString(w) }) {
			return fault.WithFix(fault.New(fault.Invalid, "%s contains bytes that are not UTF-8", of.what),
				"a lab file holds only text; write the bytes another way, such as with printf")
		}
	}
	return nil
}

// envs reads the environments; without any it is the host.
func (r Request) envs(cat manifest.Catalogue) ([]Env, error) {
	var out []Env
	add := func(text, word string) error {
		e, err := ParseEnv(text, word, cat)
		out = append(out, e)
		return err
	}
	for _, text := range r.Envs {
		if err := add(text, argument(text)); err != nil {
			return nil, err
		}
	}
	for _, text := range r.In {
		if err := add(text, "--in "+yamltree.Show(text)); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return out, add(bareDriver(runtime.GOOS), "the host")
	}
	return out, nil
}

// bareDriver is the driver of the bare machine on a system: host, where it works.
func bareDriver(goos string) string {
	if goos == "linux" {
		return "host"
	}
	return "machine"
}

// sweeps reads -L and -P, and refuses a parameter that no command contains: it would
// compare a command with itself.
func (r Request) sweeps() ([]sweep, error) {
	var out []sweep
	add := func(s sweep, err error) error {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(out, func(o sweep) bool { return o.name == s.name }) {
			return fault.WithFix(fault.New(fault.Invalid, "%s: parameter %s has values already", s.word, s.name),
				"choose another name")
		}
		used := func(text string) bool { return strings.Contains(text, s.marker()) }
		if !slices.ContainsFunc(slices.Concat(r.Argv, r.Commands, r.Setup, r.Prepare, r.Cleanup), used) {
			return fault.WithFix(fault.New(fault.Invalid, "%s: no command contains %s", s.word, s.marker()),
				"write "+s.marker()+" where its value belongs")
		}
		out = append(out, s)
		return nil
	}
	for _, text := range r.Lists {
		if err := add(parseList(text)); err != nil {
			return nil, err
		}
	}
	for _, text := range r.Ranges {
		if err := add(parseRange(text)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// withQuotedCommands takes quoted command lines and paths of programs that stand where
// environments do as commands, as hyperfine does: try 'sleep 1' 'sleep 2', try ./old ./new.
// No driver has a space or a slash in its name.
func (r Request) withQuotedCommands(cat manifest.Catalogue) Request {
	isOther := func(text string) bool {
		_, err := ParseEnv(text, "", cat)
		driver, _, _ := strings.Cut(text, ":")
		return err == nil || !strings.Contains(strings.TrimSpace(text), " ") && !strings.Contains(driver, "/")
	}
	if len(r.Argv) == 0 && len(r.Commands) == 0 && len(r.Envs) > 1 && !slices.ContainsFunc(r.Envs, isOther) {
		r.Envs, r.Commands = nil, r.Envs
	}
	return r
}

// commands returns the commands as texts, and how messages call each.
func (r Request) commands() (texts, words []string, err error) {
	switch {
	case len(r.Argv) > 0 && len(r.Commands) > 0:
		return nil, nil, fault.WithFix(fault.New(fault.Invalid, "there are two commands: one after --, and one with -c"),
			"use only one of the two")
	case len(r.Argv) > 0 && r.Shell != NoShell:
		return nil, nil, fault.WithFix(fault.New(fault.Invalid, "--shell does not apply to a command after --"),
			"write the command with -c")
	case len(r.Argv) == 1 && severalWords(r.Argv[0]):
		return nil, nil, fault.WithFix(fault.New(fault.Invalid, "the command after -- is the one word %s, not a program "+
			"with arguments", yamltree.Show(r.Argv[0])), "write it without quotes, or write -c instead of --")
	case len(r.Argv) > 0:
		return []string{shell.Quote(r.Argv...)}, []string{"the command after --"}, nil
	case len(r.Commands) == 0:
		return nil, nil, fault.WithFix(fault.New(fault.Invalid, "the command is missing"), r.howToWriteCommand())
	}
	return r.Commands, lists.Map(r.Commands, func(c string) string { return "-c " + yamltree.Show(c) }), nil
}

// howToWriteCommand is the remedy for a line without a command. Arguments that look like
// programs are shown as commands.
func (r Request) howToWriteCommand() string {
	fix := "write it after --, or with -c"
	if len(r.Envs) > 1 && !slices.ContainsFunc(r.Envs, func(e string) bool { return strings.Contains(e, ":") }) {
		fix += "; two programs are compared by bakeoff try -c " + shell.Quote(r.Envs[0]) + " -c " + shell.Quote(r.Envs[1])
	}
	return fix
}

// severalWords reports whether a word looks like a command line: it has spaces, and
// before them the name of a program without a folder. A path may contain spaces.
func severalWords(word string) bool {
	program, _, spaces := strings.Cut(word, " ")
	return spaces && program != "" && !strings.Contains(program, "/")
}

// maxContenders is that of a lab file.
const maxContenders = 64

// contenders returns every environment with every command, and each command with every
// value of the parameters that it contains.
func (r Request) contenders(envs []Env, sweeps []sweep) ([]contender, error) {
	texts, words, err := r.commands()
	if err != nil {
		return nil, err
	}
	if len(r.Names) > len(texts) {
		return nil, fault.WithFix(fault.New(fault.Invalid, "there are %d names (option -n) for %d commands", len(r.Names),
			len(texts)), "write at most one for each command")
	}
	var own [][]sweep
	all := 0
	for i := range texts {
		own = append(own, r.used(i, sweeps))
		n := len(envs)
		for _, s := range own[i] {
			n = min(n*len(s.values), maxContenders*maxContenders)
		}
		all += n
	}
	if all > maxContenders {
		return nil, fault.WithFix(fault.New(fault.Invalid, "the environments, commands and values make more than %d "+
			"contenders", maxContenders), "name fewer of them")
	}
	places, err := envNames(envs)
	if err != nil {
		return nil, err
	}
	titles := commandNames(lists.Map(texts, wordsOf), r.Names)
	// The environment alone names the sides of a comparison of environments. A command
	// that is swept is named, so that the values belong to something.
	named := len(texts) > 1 || len(r.Names) > 0 || len(envs) == 1 && len(own[0]) > 0
	var out []contender
	for e, env := range envs {
		for i := range texts {
			var parts []string
			if len(envs) > 1 || !named {
				parts = append(parts, places[e])
			}
			if named && !r.sweptProgram(i, own[i]) {
				parts = append(parts, titles[i])
			}
			base := contender{name: strings.Join(parts, "-"), env: env}
			more, err := r.swept(base, i, words[i], own[i])
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	for i, called := range distinct(lists.Map(out, func(c contender) string { return c.name })) {
		out[i].name = called
	}
	return out, nil
}

// sweptProgram tells whether the program of command i is a value of a parameter. Then the
// value names the contender.
func (r Request) sweptProgram(i int, sweeps []sweep) bool {
	texts, _, err := r.commands()
	return err == nil && i >= len(r.Names) && slices.ContainsFunc(sweeps, func(s sweep) bool {
		return wordsOf(texts[i])[0] == s.marker()
	})
}

// used are the parameters that command i and what runs beside it contain.
func (r Request) used(i int, sweeps []sweep) []sweep {
	texts := slices.Clone(r.Argv)
	for _, of := range [][]string{r.Commands, r.Setup, r.Prepare, r.Cleanup} {
		if len(of) > 0 {
			texts = append(texts, of[min(i, len(of)-1)])
		}
	}
	return lists.Filter(sweeps, func(s sweep) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, s.marker()) })
	})
}

// swept returns base with command i and every value. The values of one parameter are a
// sweep of the lab file where that means the same, because the page then shows a curve.
// Otherwise each is a contender of its own.
func (r Request) swept(base contender, i int, word string, sweeps []sweep) ([]contender, error) {
	var out []contender
	for _, at := range settings(sweeps) {
		c := base
		var err error
		if c.params, c.words, err = r.params(i, word, sweeps, at); err != nil {
			return nil, err
		}
		if len(sweeps) > 0 {
			c.name = strings.TrimPrefix(c.name+"-"+settingName(sweeps, at), "-")
		}
		out = append(out, c)
	}
	if len(sweeps) != 1 || !sweeps[0].free([]Env{base.env}) || base.name == "" {
		return out, nil
	}
	var err error
	base.curve = &sweeps[0]
	if base.params, base.words, err = r.params(i, word, nil, nil); err != nil || !base.means(out) {
		return out, nil
	}
	return []contender{base}, nil
}

// means reports whether a contender with its values filled in is the same as all: each
// word of a command keeps its place. Its name must leave room for the value.
func (c contender) means(all []contender) bool {
	for i, v := range c.curve.values {
		if len(c.name)+len(c.curve.name)+len(v)+2 > name.Max || len(c.params) != len(all[i].params) {
			return false
		}
		for key, words := range c.params {
			filled := lists.Map(words, func(w string) string { return replace(w, []sweep{*c.curve}, setting{v}) })
			if !slices.Equal(filled, all[i].params[key]) {
				return false
			}
		}
	}
	return true
}

// wordsOf are the words of a command for its name.
func wordsOf(text string) []string {
	if words, err := Split(text); err == nil {
		return words
	}
	if words := strings.Fields(text); len(words) > 0 {
		return words
	}
	return []string{"command"}
}

// params returns what command i executes with values, and where that comes from.
func (r Request) params(i int, word string, sweeps []sweep, at setting) (map[string][]string, map[string]string,
	error) {
	params, words := map[string][]string{}, map[string]string{argvKey: word}
	if len(r.Argv) > 0 {
		params[argvKey] = lists.Map(r.Argv, func(a string) string { return replace(a, sweeps, at) })
	} else {
		main, err := argv(replace(r.Commands[i], sweeps, at), r.Shell, word, true)
		if err != nil {
			return nil, nil, err
		}
		params[argvKey] = main
	}
	if params[argvKey][0] == "" {
		return nil, nil, fault.WithFix(fault.New(fault.Invalid, "%s names no program", word), "write the program first")
	}
	for _, hook := range []struct {
		key, flag string
		texts     []string
	}{{setupKey, "--setup", r.Setup}, {prepareKey, "--prepare", r.Prepare}, {cleanupKey, "--cleanup", r.Cleanup}} {
		commands := max(len(r.Commands), 1)
		switch len(hook.texts) {
		case 0:
			continue
		case 1, commands:
		default:
			return nil, nil, fault.WithFix(fault.New(fault.Invalid, "there are %d values of %s for %d commands",
				len(hook.texts), hook.flag, commands), "write one for all commands, or one for each")
		}
		text := hook.texts[min(i, len(hook.texts)-1)]
		words[hook.key] = hook.flag + " " + yamltree.Show(text)
		aside, err := argv(replace(text, sweeps, at), r.Shell, words[hook.key], false)
		if err != nil {
			return nil, nil, err
		}
		params[hook.key] = aside
	}
	return params, words, nil
}

// labName is the name of the lab that Try writes.
func (r Request) labName() string {
	if r.Name != "" {
		return r.Name
	}
	texts := r.Commands
	if len(r.Argv) > 0 {
		texts = []string{shell.Quote(r.Argv...)}
	}
	words := lists.Map(texts, wordsOf)
	return distinct([]string{cmp.Or(labName(words, commandNames(words, r.Names)), "try")})[0]
}

// write writes the lab file.
func (r Request) write(w *writer, all []contender, placed []file, metrics []metric) {
	w.quote(r.Line)
	w.own("schema: " + manifest.Schema)
	w.put(origin{"--name", "name"}, "name: %s", scalar(r.labName()))
	w.own("")
	w.comment("", "The first contender is the baseline. bakeoff compares the others with it.")
	w.own("contenders:")
	for _, c := range all {
		w.put(origin{c.env.word, "name"}, "  - name: %s", c.name)
		c.env.put(w)
		if c.curve != nil {
			w.put(origin{c.curve.word, "sweep"}, "    sweep: {%s: %s}", c.curve.name, sequence(c.curve.values))
		}
		if own := differing(all); len(own) > 0 {
			w.own("    params:", "      "+Cell+":")
			putParams(w, "        ", c, own)
		}
	}
	w.own("baseline: " + all[0].name)
	r.writeDefaults(w)
	writeFiles(w, placed)
	w.own("", "cells:", "  - name: "+Cell, "    workload: command")
	r.writeParams(w, all, metrics)
	w.put(origin{metrics[0].word, "primary"}, "    primary: %s",
		sequence(lists.Map(metrics, func(m metric) string { return m.name })))
	contenders := 0
	for _, c := range all {
		contenders++
		if c.curve != nil {
			contenders += len(c.curve.values) - 1
		}
	}
	r.writeDesign(w, contenders, (contenders-1)*len(metrics))
}

// differing are the parameters that not all contenders have alike.
func differing(all []contender) (keys []string) {
	for _, key := range []string{argvKey, setupKey, prepareKey, cleanupKey} {
		if slices.ContainsFunc(all, func(c contender) bool { return !slices.Equal(c.params[key], all[0].params[key]) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// putParams writes those of keys that a contender has.
func putParams(w *writer, indent string, c contender, keys []string) {
	for _, key := range keys {
		if len(c.params[key]) > 0 {
			w.put(origin{c.words[key], key}, "%s%s: %s", indent, key, sequence(c.params[key]))
		}
	}
}

func (r Request) writeDefaults(w *writer) {
	packages := r.packages()
	if r.CPUs == "" && r.Memory == "" && len(packages) == 0 {
		return
	}
	w.own("defaults:")
	if r.CPUs != "" {
		w.put(origin{"--cpus", "cpus"}, "  cpus: %s", scalar(r.CPUs))
	}
	if r.Memory != "" {
		w.put(origin{"--memory", "memory"}, "  memory: %s", scalar(r.Memory))
	}
	if len(packages) > 0 {
		w.put(origin{"--package", "packages"}, "  packages: %s", sequence(packages))
	}
}

// packages are the names in the values of --package, each once.
func (r Request) packages() (out []string) {
	for _, text := range r.Packages {
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// writeParams writes the parameters that all contenders share.
func (r Request) writeParams(w *writer, all []contender, metrics []metric) {
	shared := &writer{}
	own := differing(all)
	var keys []string
	for _, key := range []string{argvKey, setupKey, prepareKey, cleanupKey} {
		if !slices.Contains(own, key) {
			keys = append(keys, key)
		}
	}
	putParams(shared, "      ", all[0], keys)
	if r.Dir != "" && !slices.ContainsFunc(all, func(c contender) bool { return !c.env.shared() }) {
		shared.put(origin{"the current folder", "workdir"}, "      workdir: %s", scalar(r.Dir))
	}
	if r.IgnoreFailure {
		shared.put(origin{"--ignore-failure", "exit"}, "      exit: any")
	}
	for _, m := range metrics {
		if m.find != "" {
			shared.put(origin{m.word, m.name}, "      %s: %s", m.name, scalar(m.find))
		}
	}
	if len(r.Prepare) == 0 && len(r.Cleanup) == 0 && !slices.ContainsFunc(metrics, found) {
		shared.own("      repeat: " + repeat.String())
		shared.own(fmt.Sprintf("      warmup: %d", warmup))
	}
	if shared.line > 0 {
		w.own("    params:")
		w.append(shared)
	}
}

// repeat is how long a trial executes a short command. It suffices for twelve executions of
// a command of 5 ms, of which the first warmup find colder caches than the others.
const (
	repeat = 60 * time.Millisecond
	warmup = 4
)

// found reports whether a metric is a number in the output.
func found(m metric) bool { return m.find != "" }

// append writes the lines of another writer.
func (w *writer) append(o *writer) {
	for line, from := range o.lines {
		if w.lines == nil {
			w.lines = map[int]origin{}
		}
		w.lines[w.line+line] = from
	}
	w.line += o.line
	w.text.WriteString(o.text.String())
}

// alone is the number of blocks of a run without comparisons.
const alone = 10

// numbers writes numbers as a YAML list in one line.
func numbers[T any](ns []T) string {
	return sequence(lists.Map(ns, func(n T) string { return fmt.Sprint(n) }))
}

func (r Request) writeDesign(w *writer, contenders, comparisons int) {
	w.own("")
	w.comment("", "The run stops at the first look at which every comparison is decided, or when the budget is spent.")
	w.own("design:")
	if comparisons == 0 {
		w.own(fmt.Sprintf("  looks: [%d]", alone))
	} else {
		// Each contender and the twin have two trials in a block.
		block := time.Duration(2*(contenders+1)) * manifest.ShortestTrial
		looks, alphas := manifest.Looks(comparisons, block, r.Budget)
		w.own("  looks: "+numbers(looks), "  alphas: "+numbers(alphas))
	}
	if r.Margin != 0 {
		w.put(origin{"--margin", "margin"}, "  margin: %v", r.Margin)
	}
	if r.Budget != 0 {
		w.put(origin{"--budget", "budget"}, "  budget: %v", r.Budget)
	}
}

// unseen names the words of commands that are files of the current folder, if an
// environment does not have that folder.
func (r Request) unseen(all []contender, placed []file) (notes []string) {
	if r.Exists == nil || !slices.ContainsFunc(all, func(c contender) bool { return !c.env.shared() }) {
		return nil
	}
	seen := map[string]bool{}
	for _, c := range all {
		for _, word := range c.params[argvKey] {
			if word == "" || seen[word] || path.IsAbs(word) || strings.HasPrefix(word, "-") || !r.Exists(word) {
				continue
			}
			seen[word] = true
			notes = append(notes, fmt.Sprintf("%s is in the current folder, and environments start without it: "+
				"%s", word, remedy(word, placed)))
		}
	}
	return notes
}
