package compose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
	"bakeoff/lab/manifest"
)

// RecordRequest is what a person types after bakeoff boot record.
type RecordRequest struct {
	Line []string // the whole command line, for the first comment; may be empty
	Envs []string // DRIVER[:IMAGE]
	// Options are values of --option, NAME=VALUE: options of the driver of every
	// environment.
	Options []string
	// Variants are values of --variant, NAME:OPTION=VALUE: every environment once more
	// for each NAME, with its options.
	Variants []string
	Boots    int // of each environment
	// Answer and Argv are the parameters of the workload boot; may be empty.
	Answer string
	Argv   []string
	// Plain leaves the command line of the kernel as it is.
	Plain        bool
	CPUs, Memory string // "": the default
	// SystemOf is the operating system of a kernel, by its file: "" if it is unknown. nil is the
	// same as one that knows none.
	SystemOf func(kernel string) string
}

// RecordCell is the name of the one cell of the lab file that Record writes.
const RecordCell = "boot"

// initcalls makes Linux log every function that it calls while it boots, into a buffer
// that holds all of them, and record the processes.
const initcalls = "initcall_debug log_buf_len=4M " +
	"trace_event=sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit"

// printed is for a guest on the instruction clock, which has no agent that could read the
// buffers: the kernel prints the functions on its console. With trace_event, such a boot does
// not end.
const printed = "initcall_debug ignore_loglevel"

// optAppend is the option of drivers that adds words to the command line of a kernel.
const optAppend = "append"

// booted is a contender of Record.
type booted struct {
	name    string
	env     Env
	options param.Values
	words   map[string]string // option → the flag that it comes from
}

// Record writes the lab file for recording boots. The first environment is the baseline.
// An error is of kind fault.Invalid and names the argument or flag.
func Record(r RecordRequest, cat manifest.Catalogue) (File, error) {
	all, err := r.contenders(cat)
	if err != nil {
		return File{}, err
	}
	f := File{words: map[string]string{"cpus": "--cpus", "memory": "--memory", "answer": "--answer",
		"argv": "the command"}, options: map[string]string{}}
	w := &writer{}
	w.quote(r.Line)
	w.own("schema: "+manifest.Schema, "name: boot", "", "contenders:")
	for _, c := range all {
		for _, s := range c.env.driver.Options {
			f.options[s.Name] = "--option " + s.Name + "="
		}
		w.put(origin{c.env.word, "name"}, "  - name: %s", c.name)
		c.env.put(w)
		for _, key := range slices.Sorted(maps.Keys(c.options)) {
			w.put(origin{c.words[key], key}, "    %s: %s", key, scalar(c.options[key]))
		}
	}
	primary := "ready"
	if !slices.ContainsFunc(all, func(b booted) bool { return !b.counted() }) {
		primary = "instructions"
	}
	w.own("baseline: " + all[0].name)
	Request{CPUs: r.CPUs, Memory: r.Memory}.writeDefaults(w)
	w.own("", "cells:", "  - name: "+RecordCell, "    workload: boot", "    params:", "      record: true")
	if r.Answer != "" {
		w.put(origin{"--answer", "answer"}, "      answer: %s", scalar(r.Answer))
	}
	if len(r.Argv) > 0 {
		w.put(origin{"the command after --", argvKey}, "      argv: %s", sequence(r.Argv))
	}
	w.own("    primary: ["+primary+"]", "")
	w.comment("", "Every trial boots an environment of its own. The one that a run creates in addition only waits.")
	w.own("design:", "  instances: run", "  mirror: false", fmt.Sprintf("  looks: [%d]", r.Boots))
	f.Text, f.lines = []byte(w.text.String()), w.lines
	return f, nil
}

// variant is what --variant says of one name.
type variant struct {
	name    string
	options param.Values
	words   map[string]string // as in booted
}

// variants reads --variant. The first variant is the environment as it is.
func (r RecordRequest) variants() ([]variant, error) {
	all := []variant{{}}
	for _, text := range r.Variants {
		name, rest, ok := strings.Cut(text, ":")
		if name = slug(name); !ok || name == "" {
			return nil, fault.WithFix(fault.New(fault.Invalid, "--variant %s needs a name and an "+
				"option", yamltree.Show(text)),
				"write NAME:OPTION=VALUE")
		}
		options, words, err := optionsOf("--variant", []string{rest})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(v variant) bool { return v.name == name })
		if i < 0 {
			i, all = len(all), append(all, variant{name, param.Values{}, map[string]string{}})
		}
		for option := range options {
			if _, twice := all[i].options[option]; twice {
				return nil, fault.WithFix(fault.New(fault.Invalid, "--variant %s: the variant %s already has the option %s",
					yamltree.Show(text), name, option), "write all words in one value, or name another variant")
			}
		}
		maps.Copy(all[i].options, options)
		maps.Copy(all[i].words, words)
	}
	return all, nil
}

// contenders are every environment as it is, and with every variant.
func (r RecordRequest) contenders(cat manifest.Catalogue) ([]booted, error) {
	shared, words, err := optionsOf("--option", r.Options)
	if err != nil {
		return nil, err
	}
	variants, err := r.variants()
	if err != nil {
		return nil, err
	}
	var envs []Env
	for _, text := range r.Envs {
		e, err := parseEnv(text, argument(text), cat, shared)
		if err != nil {
			return nil, err
		}
		envs = append(envs, e)
	}
	if len(envs) == 0 {
		return nil, fault.WithFix(fault.New(fault.Invalid, "the command names no environment to boot"), "write an "+
			"environment, "+
			"such as "+
			"microvm:"+DefaultImage)
	}
	names, err := envNames(envs)
	if err != nil {
		return nil, err
	}
	var out []booted
	for i, e := range envs {
		var asItIs param.Values // the options without a variant
		for _, v := range variants {
			b := booted{name: names[i], env: e, options: param.Values{}, words: maps.Clone(words)}
			maps.Copy(b.options, shared)
			maps.Copy(b.options, v.options)
			maps.Copy(b.words, v.words)
			if !r.Plain && !b.foreign(r.SystemOf) {
				b.logCalls()
			}
			if v.name == "" {
				asItIs = b.options
			} else {
				b.name += "-" + v.name
				if why := e.same(asItIs, b.options, v.options); why != "" {
					return nil, fault.WithFix(fault.New(fault.Invalid, "%s: the environment has this value already: %s",
						v.given(), why),
						"name another value")
				}
			}
			out = append(out, b)
		}
	}
	for i, called := range distinct(lists.Map(out, func(b booted) string { return b.name })) {
		out[i].name = called
	}
	return out, nil
}

// given is a variant as it was written.
func (v variant) given() string {
	return strings.Join(lists.Map(slices.Sorted(maps.Keys(v.options)), func(name string) string {
		return "--variant " + yamltree.Show(v.name+":"+name+"="+v.options[name])
	}), ", ")
}

// commandLine is what the kernel of an environment gets, as far as it is the same on all
// hosts; "" if the driver gives it nothing.
func (e Env) commandLine(options param.Values) string {
	if e.driver.CommandLine == nil {
		return ""
	}
	return strings.TrimSpace(e.driver.CommandLine(options) + " " + options[optAppend])
}

// same says why an environment with the options of a variant is the one without; "" if it is
// another one.
func (e Env) same(without, with, variant param.Values) string {
	var why []string
	for _, name := range slices.Sorted(maps.Keys(variant)) {
		i := slices.IndexFunc(e.driver.Options, func(s param.Spec) bool { return s.Name == name })
		if i < 0 {
			return "" // the lab file refuses it
		}
		before := cmp.Or(without[name], e.driver.Options[i].Default)
		if name == optAppend {
			line := e.commandLine(without)
			if !sameWords(line, e.commandLine(with)) {
				return ""
			}
			why = append(why, fmt.Sprintf("the command line of the kernel is %q", line))
			continue
		}
		if with[name] != before {
			return ""
		}
		why = append(why, fmt.Sprintf("%s is %s", name, yamltree.Show(before)))
	}
	return strings.Join(why, ", ")
}

// sameWords reports whether two command lines of Linux have the same words. Of a word that
// stands there several times with the same value, one counts.
func sameWords(a, b string) bool {
	set := func(line string) []string {
		words := lists.Map(strings.Fields(line), func(word string) string {
			name, value, _ := strings.Cut(word, "=")
			return strings.ReplaceAll(name, "-", "_") + "=" + value
		})
		var last []string
		for i, w := range words {
			name, _, _ := strings.Cut(w, "=")
			later := slices.ContainsFunc(words[i+1:], func(o string) bool { return o == w })
			if !later {
				last = append(last, name+w[len(name):])
			}
		}
		slices.Sort(last)
		return last
	}
	return slices.Equal(set(a), set(b))
}

// CommandLines says what bakeoff gives to the kernel of each environment, a line for each
// command line.
func (r RecordRequest) CommandLines(cat manifest.Catalogue) []string {
	all, err := r.contenders(cat)
	if err != nil {
		return nil
	}
	var lines []string
	for _, b := range all {
		line := b.env.commandLine(b.options)
		if b.foreign(r.SystemOf) {
			line = b.options[optAppend]
		}
		if line != "" {
			lines = append(lines, fmt.Sprintf("kernel command line of %s: %s", b.name, line))
		}
	}
	return lines
}

// counted reports whether a contender is on the instruction clock.
func (b *booted) counted() bool { return b.options["clock"] == bootmodel.ClockInstructions }

// The options of drivers that say which system a contender boots.
const (
	optKernel = "kernel"
	optDisk   = "disk"
	optSystem = "guest-system"
	linux     = "linux"
	anySystem = "auto"
)

// foreign reports whether a contender boots a kernel to which words for Linux mean nothing, or
// something else: that of another system, or one that a boot loader of the disk starts.
func (b *booted) foreign(systemOf func(kernel string) string) bool {
	if system := b.options[optSystem]; system != "" && system != anySystem {
		return system != linux
	}
	kernel := b.options[optKernel]
	if kernel == "" {
		return b.options[optDisk] != ""
	}
	system := ""
	if systemOf != nil {
		system = systemOf(kernel)
	}
	return system != "" && system != linux
}

// logCalls makes the kernel of a contender log what it calls, if its driver can add words to
// its command line.
func (b *booted) logCalls() {
	if !slices.ContainsFunc(b.env.driver.Options, func(s param.Spec) bool { return s.Name == optAppend }) {
		return
	}
	words := initcalls
	if b.counted() {
		words = printed
	}
	b.options[optAppend] = strings.TrimSpace(b.options[optAppend] + " " + words)
	b.words[optAppend] = cmp.Or(b.words[optAppend], "the recording of initcalls (see --plain)")
}

// optionsOf reads NAME=VALUE.
func optionsOf(flag string, texts []string) (param.Values, map[string]string, error) {
	out, words := param.Values{}, map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, nil, fault.WithFix(fault.New(fault.Invalid, "%s %s: an option needs a value", flag,
				yamltree.Show(text)), "write NAME=VALUE; see bakeoff list drivers")
		}
		out[name], words[name] = value, flag+" "+yamltree.Show(text)
	}
	return out, words, nil
}
