package compose

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
	"bakeoff/lab/manifest"
)

// InitRequest is what a person types after bakeoff init.
type InitRequest struct {
	Line []string // the whole command line, for the first comment; may be empty
	// Names are drivers, as DRIVER[:IMAGE], and workloads.
	Names []string
	Argv  []string // the command after --
	Dir   string   // the current folder, whose name the lab gets
	Here  []Here   // the drivers, as they are on this machine
}

// Here is a driver and whether it works on this machine.
type Here struct {
	Driver string
	Why    string // it does not; "" if it does
}

// Init writes a lab file with comments, which is valid as it is. Without a driver it
// compares the host with a container, and without a workload it measures sha256. An
// error is of kind fault.Invalid and names the argument.
func Init(r InitRequest, cat manifest.Catalogue) (File, error) {
	envs, works, err := r.sort(cat)
	if err != nil {
		return File{}, err
	}
	if envs, err = r.complete(envs, cat); err != nil {
		return File{}, err
	}
	names, err := envNames(envs)
	if err != nil {
		return File{}, err
	}
	names = distinct(names)
	cells := cellsOf(works, r.Argv, cat)
	storage, err := storageFor(cells, envs)
	if err != nil {
		return File{}, err
	}
	w := &writer{}
	r.writeHead(w)
	r.writeContenders(w, envs, names, cat)
	writeLimits(w, storage)
	writeCells(w, cells)
	writeInitDesign(w)
	return File{Text: []byte(w.text.String()), lines: w.lines}, nil
}

// sort tells drivers from workloads.
func (r InitRequest) sort(cat manifest.Catalogue) (envs []Env, works []string, err error) {
	if slices.ContainsFunc(r.Argv, func(w string) bool { return !utf8.ValidString(w) }) {
		return nil, nil, fault.New(fault.Invalid, "the command after -- contains bytes that are not UTF-8")
	}
	workloads := lists.Map(cat.Workloads, func(w manifest.WorkloadEntry) string { return w.Name })
	for _, text := range r.Names {
		word := argument(text)
		if slices.Contains(workloads, text) {
			if text == commandName && len(r.Argv) == 0 {
				return nil, nil, fault.WithFix(fault.New(fault.Invalid, "%s: the workload has no command", word),
					"write the command after --")
			}
			if slices.Contains(works, text) {
				return nil, nil, fault.WithFix(fault.New(fault.Invalid, "%s occurs twice", word), "remove one of them")
			}
			works = append(works, text)
			continue
		}
		driver, image, named := strings.Cut(text, ":")
		if !slices.Contains(driverNames(cat), driver) {
			fix := yamltree.Meant(driver, append(driverNames(cat), workloads...))
			if !strings.HasPrefix(fix, "did you mean") {
				fix = "see bakeoff list drivers and bakeoff list workloads; write a command after --"
			}
			return nil, nil, fault.WithFix(fault.New(fault.Invalid, "%s: there is no driver and no workload %s", word,
				yamltree.Show(driver)), fix)
		}
		e, err := usual(driver, word, cat)
		if err == nil && named {
			e, err = ParseEnv(driver+":"+image, word, cat)
		}
		if err != nil {
			return nil, nil, err
		}
		envs = append(envs, e)
	}
	return envs, works, nil
}

// commandName is the workload of a command of the user's own.
const commandName = "command"

// usual is a driver with the usual image, if it needs one.
func usual(name, word string, cat manifest.Catalogue) (Env, error) {
	e, err := ParseEnv(name, word, cat)
	if err != nil && e.driver.Image {
		return ParseEnv(name+":"+DefaultImage, word, cat)
	}
	return e, err
}

// likely are the drivers that Init takes if the person names none, the most usual
// first, each by the name that people know.
var likely = []string{"crun", "bwrap", "chroot", "podman", "docker", "nspawn", "microvm"}

// complete adds the host as the baseline of one driver, and a container to the host.
func (r InitRequest) complete(envs []Env, cat manifest.Catalogue) ([]Env, error) {
	host, err := usual(bareDriver(runtime.GOOS), "the host", cat)
	if err != nil || len(envs) > 1 {
		return envs, err
	}
	if len(envs) == 1 && !envs[0].shared() {
		return []Env{host, envs[0]}, nil
	}
	envs = []Env{host}
	for _, name := range likely {
		e, err := usual(name, argument(name), cat)
		if err == nil && r.works(e) {
			return append(envs, e), nil
		}
	}
	return envs, nil
}

// works reports whether the driver of e works on this machine.
func (r InitRequest) works(e Env) bool {
	return slices.Contains(r.Here, Here{Driver: e.driver.Name})
}

// cell is a cell of Init.
type cell struct {
	name string
	work manifest.WorkloadEntry
	argv []string
}

// cellsOf makes a cell for each workload, and one for the command.
func cellsOf(works, argv []string, cat manifest.Catalogue) (out []cell) {
	if len(works) == 0 && len(argv) == 0 {
		works = []string{"crypto"}
	}
	if len(argv) > 0 && !slices.Contains(works, commandName) {
		works = append(works, commandName)
	}
	for _, name := range works {
		c := cell{name: name}
		c.work, _ = lists.Find(cat.Workloads, func(w manifest.WorkloadEntry) bool { return w.Name == name })
		if name == commandName {
			c.name, c.argv = slug(path.Base(argv[0])), argv
		}
		out = append(out, c)
	}
	for i, name := range distinct(lists.Map(out, func(c cell) string { return c.name })) {
		out[i].name = name
	}
	return out
}

// storage is a volume that cells need.
type storage struct {
	path, backing string
	size          unit.Bytes
}

// backings are those of the volumes of Init, the best first. dir has the size of its
// disk.
var backings = []string{"file:ext4", "tmpfs", "dir"}

// storageFor returns the volumes that cells need, with a backing that all
// environments have.
func storageFor(cells []cell, envs []Env) (out []storage, err error) {
	for _, c := range cells {
		values := param.Defaults(c.work.Params)
		at := values[c.work.Volume]
		if c.work.Volume == "" || at == "" {
			continue
		}
		i := slices.IndexFunc(out, func(s storage) bool { return s.path == at })
		if i < 0 {
			i, out = len(out), append(out, storage{path: at, size: unit.GiB})
		}
		if c.work.Files != nil {
			out[i].size = max(out[i].size, 2*unit.Bytes(c.work.Files(values).Bytes))
		}
		for _, b := range backings {
			all := !slices.ContainsFunc(envs, func(e Env) bool { return !slices.Contains(e.driver.Backings, b) })
			if all && out[i].backing == "" {
				out[i].backing = b
			}
		}
		if out[i].backing == "" {
			return nil, fault.WithFix(fault.New(fault.Invalid, "workload %s needs a volume, and no backing works with %s",
				c.work.Name, yamltree.OneOf(lists.Map(envs, func(e Env) string { return e.name }))),
				"name other drivers, or another workload")
		}
	}
	return out, nil
}

func (r InitRequest) writeHead(w *writer) {
	if w.quote(r.Line) {
		w.own("#")
	}
	w.own("#   bakeoff plan    show what would run, how long it takes, and what is missing",
		"#   bakeoff run     measure, and write a page with the verdicts",
		"#",
		"# bakeoff schema prints the schema of this file for editors.",
		"schema: "+manifest.Schema,
		"name: "+distinct([]string{cmp.Or(slug(filepath.Base(r.Dir)), "lab")})[0], "")
}

func (r InitRequest) writeContenders(w *writer, envs []Env, names []string, cat manifest.Catalogue) {
	w.comment("", "The sides of the comparison. bakeoff compares the others with the baseline, and the baseline with a "+
		"twin of itself.")
	w.own("contenders:")
	for i, e := range envs {
		w.comment("  ", e.driver.Summary)
		if h, ok := lists.Find(r.Here, func(h Here) bool { return h.Driver == e.driver.Name }); ok && h.Why != "" {
			w.comment("  ", "It does not work on this machine: "+safetext.Line(h.Why))
		}
		w.put(origin{e.word, "name"}, "  - name: %s", names[i])
		e.put(w)
		var options []param.Spec
		for _, s := range e.driver.Options {
			if !slices.ContainsFunc(e.keys, func(kv [2]string) bool { return kv[0] == s.Name }) {
				options = append(options, s)
			}
		}
		writeSpecs(w, "    # ", options)
	}
	var others []string
	for _, name := range append(slices.Clone(likely), driverNames(cat)...) {
		e, err := usual(name, argument(name), cat)
		if err != nil || !r.works(e) || name != e.driver.Name && !slices.Contains(likely, name) ||
			slices.ContainsFunc(envs, func(o Env) bool { return o.driver.Name == e.driver.Name }) {
			continue
		}
		envs = append(envs, e)
		others = append(others, "  # - "+e.flow())
	}
	if len(others) > 0 {
		w.comment("  ", "These drivers work on this machine, too:")
		w.own(others...)
	}
	w.own("baseline: "+names[0], "")
}

// flow writes e as a contender in one line.
func (e Env) flow() string {
	line := "{name: " + slug(e.name)
	for _, kv := range e.keys {
		line += ", " + kv[0] + ": " + scalar(kv[1])
	}
	if e.image != "" {
		line += ", image: " + scalar(e.image)
	}
	return line + "}"
}

func writeLimits(w *writer, volumes []storage) {
	w.comment("", "Values for contenders that do not set these keys themselves.")
	w.own("defaults:", "  cpus: 1", "  memory: 512MiB")
	if len(volumes) == 0 {
		w.own("")
		return
	}
	w.comment("  ", "The same backing everywhere: otherwise one side could use a disk and another memory.")
	w.own("  volumes:")
	for _, v := range volumes {
		size := ""
		if v.backing != "dir" {
			size = ", size: " + v.size.String()
		}
		w.own(fmt.Sprintf("    %s: {backing: %s%s}", v.path, scalar(v.backing), size))
	}
	w.own("")
}

func writeCells(w *writer, cells []cell) {
	w.comment("", "What is measured. Only primary metrics get verdicts, and they share the error rate: few are better "+
		"than many.")
	w.own("cells:")
	for _, c := range cells {
		w.comment("  ", c.work.Summary)
		w.own("  - name: "+c.name, "    workload: "+c.work.Name)
		w.own("    primary: " + primaryOf(c.work))
		indent := "    #   "
		if len(c.argv) > 0 {
			w.own("    params:")
			w.put(origin{"the command after --", argvKey}, "      argv: %s", sequence(c.argv))
			indent = "      # "
		} else if len(c.work.Params) > 0 {
			w.own("    # params:")
		}
		writeSpecs(w, indent, lists.Filter(c.work.Params, func(s param.Spec) bool { return s.Name != argvKey }))
	}
	w.own("")
}

// primaryOf is true for a workload with primary metrics of its own, and otherwise its
// first metric.
func primaryOf(w manifest.WorkloadEntry) string {
	if slices.ContainsFunc(w.Metrics, func(m sample.Metric) bool { return m.Primary }) || len(w.Metrics) == 0 {
		return "true"
	}
	return sequence([]string{w.Metrics[0].Name})
}

// writeSpecs writes options or parameters as comments with their defaults.
func writeSpecs(w *writer, indent string, specs []param.Spec) {
	for _, s := range specs {
		value := "…"
		switch {
		case s.Kind == param.List && s.Default != "":
			value = sequence(param.Values{s.Name: s.Default}.List(s.Name))
		case s.Kind == param.List:
			value = "[…]"
		case s.Default != "":
			value = scalar(s.Default)
		}
		line := fmt.Sprintf("%s%s: %s", indent, s.Name, value)
		w.own(fmt.Sprintf("%-32s # %s", line, gist(s.Doc, commentWidth-32)))
	}
}

// gist is the beginning of a description that fits into a width, if possible up to the
// end of a clause.
func gist(doc string, width int) string {
	doc, _, _ = strings.Cut(safetext.Line(doc), ". ")
	if utf8.RuneCountInString(doc) <= width {
		return strings.TrimSuffix(doc, ".")
	}
	end := -1
	for _, mark := range []string{"; ", ": ", ", ", " ("} {
		if i := strings.Index(doc, mark); i > 0 && utf8.RuneCountInString(doc[:i]) <= width && i > end {
			end = i
		}
	}
	if end < 0 {
		return safetext.Clip(doc, width)
	}
	return doc[:end]
}

func writeInitDesign(w *writer) {
	w.comment("", "When the run stops: as soon as everything is decided, or when the budget is spent.")
	d := manifest.DefaultDesign()
	looks := numbers(d.Looks)
	w.own("design:",
		fmt.Sprintf("  %-29s # differences within it are equivalent", fmt.Sprintf("margin: %v", d.Margin)),
		fmt.Sprintf("  %-29s # bakeoff starts no block that would exceed it", "budget: 30m"),
		fmt.Sprintf("  # %-27s # the numbers of blocks after which the run may stop", "looks: "+looks), "",
		"profiles:",
		"  ci: {design: {blocks: 2, budget: 60s}} # bakeoff run --profile ci: a short check that decides nothing")
}
