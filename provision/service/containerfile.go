package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"bakeoff/base/yamltree"
)

// instruction is one instruction of a Containerfile with its lines joined.
type instruction struct {
	yamltree.Position
	word, rest string
}

// containerfile is the state of ParseContainerfile.
type containerfile struct {
	checker
	file string
	d    *Definition
	from bool
	// given are the values from outside, global those of ARG before FROM, arguments
	// those after it, and env those of ENV.
	given, global, arguments, env map[string]string
	user, dir                     string
}

// instructions are those that bakeoff reads.
var instructions = map[string]func(*containerfile, instruction){
	"FROM": (*containerfile).baseImage, "ARG": (*containerfile).argument, "ENV": (*containerfile).environment,
	"RUN": (*containerfile).run, "COPY": (*containerfile).copy, "USER": (*containerfile).become,
	"WORKDIR": (*containerfile).workdir, "EXPOSE": (*containerfile).expose, "ENTRYPOINT": (*containerfile).entrypoint,
	"CMD": (*containerfile).cmd, "LABEL": (*containerfile).label,
}

// others are instructions that bakeoff does not read, with what to do.
var others = map[string]string{
	"ADD":         "use COPY, and download or unpack in a step with RUN",
	"VOLUME":      "remove it; the lab file names the volumes of an environment",
	"SHELL":       `write RUN ["/bin/bash", "-c", "…"]`,
	"HEALTHCHECK": "remove it; the workload says when a server is ready",
	"STOPSIGNAL":  "remove it; bakeoff ends environments with SIGKILL",
	"ONBUILD":     "write the instruction where it is executed",
	"MAINTAINER":  "write LABEL org.opencontainers.image.authors=…",
	"INCLUDE":     "copy the lines of the other file",
}

// ParseContainerfile reads a Containerfile with one stage. file is its name in messages,
// name that of its folder, and given has values for ARG. Errors are of kind
// fault.Invalid.
//
// Source: the Dockerfile reference of Docker. Text after RUN, CMD and ENTRYPOINT is a
// line for /bin/sh, or a JSON list of words.
func ParseContainerfile(file, name string, src []byte, given map[string]string) (*Definition, error) {
	r := &yamltree.Reporter{File: file}
	c := &containerfile{checker: checker{r}, file: filepath.Base(file), given: given, global: map[string]string{},
		arguments: map[string]string{}, env: map[string]string{}, d: &Definition{Name: name, Env: []string{}}}
	c.name(yamltree.Position{}, name)
	for _, in := range c.split(src) {
		read, ok := instructions[in.word]
		switch {
		case !ok && others[in.word] != "":
			c.Add(in.Position, others[in.word], "bakeoff does not read the instruction %s", in.word)
		case !ok:
			c.Add(in.Position, yamltree.Meant(in.word, slices.Sorted(maps.Keys(instructions))), "unknown instruction %s",
				yamltree.Show(in.word))
		case in.rest == "":
			c.Add(in.Position, "write its value after it", "%s has no value", in.word)
		case !c.from && in.word != "FROM" && in.word != "ARG":
			c.Add(in.Position, "begin with FROM", "%s stands before FROM", in.word)
		default:
			read(c, in)
		}
	}
	switch {
	case !c.from && r.Err() == nil:
		c.Add(yamltree.Position{}, "begin with FROM and an image", "the file has no FROM")
	case len(c.d.Steps) > maxSteps:
		c.Add(yamltree.Position{}, "make fewer", "the service has %d steps; the limit is %d", len(c.d.Steps),
			maxSteps)
	}
	for n := range given {
		if _, known := c.arguments[n]; !known && r.Err() == nil {
			if _, known = c.global[n]; !known {
				c.Add(yamltree.Position{}, "write ARG "+n+", or omit the argument", "the file has no ARG %s", yamltree.Show(n))
			}
		}
	}
	c.d.User, c.d.Dir = c.user, c.dir
	if err := r.Err(); err != nil {
		return nil, err
	}
	return c.d, nil
}

// split joins continued lines.
func (c *containerfile) split(src []byte) (out []instruction) {
	switch {
	case len(src) > yamltree.MaxSource:
		c.Add(yamltree.Position{}, "make it smaller", "the file has more than %d bytes", yamltree.MaxSource)
		return nil
	case !utf8.Valid(src) || bytes.ContainsRune(src, 0):
		c.Add(yamltree.Position{}, "save the file as UTF-8", "the file is not UTF-8 text")
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	var text []string
	at, number := yamltree.Position{}, 0
	end := func() {
		word, rest, _ := strings.Cut(strings.TrimSpace(strings.Join(text, "")), " ")
		if w, more, ok := strings.Cut(word, "\t"); ok {
			word, rest = w, more+" "+rest
		}
		out = append(out, instruction{at, strings.ToUpper(word), strings.TrimSpace(rest)})
		text = nil
	}
	for line := range strings.Lines(string(src)) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		left := strings.TrimLeft(line, " \t")
		if strings.HasPrefix(left, "#") {
			key, _, found := strings.Cut(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(left, "#"), " ", "")), "=")
			if found && key == "escape" && len(out) == 0 && text == nil {
				c.Add(yamltree.Position{Line: number, Column: 1}, `continue lines with \`, "bakeoff does not read escape=")
			}
			continue
		}
		if left == "" {
			continue // also between continued lines
		}
		if text == nil {
			at = yamltree.Position{Line: number, Column: 1 + len(line) - len(left)}
			line = left
		}
		part, more := strings.CutSuffix(line, `\`)
		text = append(text, part)
		if !more {
			end()
		}
	}
	if text != nil {
		end()
	}
	return out
}

// flags reads --NAME=VALUE before the value of an instruction.
func (c *containerfile) flags(in instruction, known ...string) (values map[string]string, rest string) {
	values, rest = map[string]string{}, in.rest
	for strings.HasPrefix(rest, "--") {
		flag, more, _ := strings.Cut(rest, " ")
		name, value, _ := strings.Cut(flag[2:], "=")
		if !slices.Contains(known, name) {
			fix := "remove it"
			if len(known) > 0 {
				fix = "use --" + strings.Join(known, " or --")
			}
			c.Add(in.Position, fix, "bakeoff does not read --%s of %s", name, in.word)
		}
		values[name], rest = c.expand(in, value), strings.TrimSpace(more)
	}
	return values, rest
}

func (c *containerfile) baseImage(in instruction) {
	_, rest := c.flags(in)
	words := strings.Fields(rest)
	switch {
	case c.from:
		c.Add(in.Position, "write one FROM, and make each other stage a service of its own",
			"bakeoff reads one stage, and this is another one")
		return
	case len(words) != 1 && (len(words) != 3 || !strings.EqualFold(words[1], "as")):
		c.Add(in.Position, "write FROM IMAGE", "FROM has %d words", len(words))
		return
	}
	c.env, c.arguments = c.global, c.global // FROM knows the arguments before it
	c.d.Base = c.expand(in, words[0])
	c.env, c.arguments, c.from = map[string]string{}, map[string]string{}, true
	c.base(in.Position, c.d)
}

func (c *containerfile) argument(in instruction) {
	for _, w := range c.words(in, in.rest) {
		name, value, has := strings.Cut(w, "=")
		c.variable(in.Position, name, value)
		into := c.arguments
		if !c.from {
			into = c.global
		}
		if g, ok := c.given[name]; ok {
			value, has = g, true
		} else if g, ok := c.global[name]; ok && c.from && !has {
			value, has = g, true
		}
		if has {
			into[name] = value
		} else if _, ok := into[name]; !ok {
			into[name] = ""
		}
	}
}

func (c *containerfile) environment(in instruction) {
	for _, p := range c.assignments(in) {
		c.variable(in.Position, p[0], p[1])
		c.env[p[0]] = p[1]
		c.d.Env = slices.DeleteFunc(c.d.Env, func(e string) bool { return strings.HasPrefix(e, p[0]+"=") })
		c.d.Env = append(c.d.Env, p[0]+"="+p[1])
	}
}

// assignments reads NAME=VALUE NAME=VALUE.
func (c *containerfile) assignments(in instruction) (out [][2]string) {
	for _, w := range c.words(in, in.rest) {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name == "" {
			c.Add(in.Position, fmt.Sprintf("write %s NAME=VALUE", in.word), "%s is not NAME=VALUE", yamltree.Show(w))
			return nil
		}
		out = append(out, [2]string{name, value})
	}
	return out
}

func (c *containerfile) run(in instruction) {
	flags, rest := c.flags(in, "network")
	network, asked := flags["network"]
	if asked && !slices.Contains([]string{"default", "host", "none"}, network) {
		c.Add(in.Position, "write --network=default, host or none", "the network of RUN is %s", yamltree.Show(network))
	}
	in.rest = rest
	argv := c.command(in)
	env := slices.Clone(c.d.Env)
	for _, k := range slices.Sorted(maps.Keys(c.arguments)) {
		if _, ok := c.env[k]; !ok {
			env = append(env, k+"="+c.arguments[k])
		}
	}
	c.step(in, Step{Run: &Run{Argv: argv, Env: env, User: c.user, Dir: c.dir, Network: asked && network != "none"}})
}

func (c *containerfile) step(in instruction, s Step) {
	s.Where, s.Text = fmt.Sprintf("%s:%d", c.file, in.Line), in.word+" "+in.rest
	c.d.Steps = append(c.d.Steps, s)
}

// command reads a line for the shell, or a JSON list of words.
func (c *containerfile) command(in instruction) []string {
	switch list := strings.TrimSpace(in.rest); {
	case list == "":
		c.Add(in.Position, "write a command", "%s has no command", in.word)
		return nil
	case strings.Contains(list, "<<"):
		c.Add(in.Position, "copy a script with COPY, and run it", "bakeoff reads no here-documents")
	case strings.HasPrefix(list, "["):
		var argv []string
		if err := json.Unmarshal([]byte(list), &argv); err == nil && len(argv) > 0 && argv[0] != "" {
			c.text(in.Position, in.word, argv)
			return argv
		}
		if strings.HasPrefix(strings.TrimSpace(list[1:]), `"`) || in.word != "RUN" {
			c.Add(in.Position, `write ["PROGRAM", "ARGUMENT"]`, "the list after %s is not JSON", in.word)
		}
	}
	return shell(in.rest)
}

func (c *containerfile) copy(in instruction) {
	flags, rest := c.flags(in, "chown", "chmod")
	var words []string
	if strings.HasPrefix(rest, "[") {
		if err := json.Unmarshal([]byte(rest), &words); err != nil {
			c.Add(in.Position, `write ["FROM", "TO"]`, "the list after COPY is not JSON")
			return
		}
	} else {
		words = c.words(in, rest)
	}
	if len(words) < 2 {
		c.Add(in.Position, "write COPY FROM TO", "COPY has %d words", len(words))
		return
	}
	to := words[len(words)-1]
	into := strings.HasSuffix(to, "/") || path.Base(to) == "."
	if len(words) > 2 && !into {
		c.Add(in.Position, "write a / after the last word", "COPY has several sources, and %s is not a folder",
			yamltree.Show(to))
	}
	if to = path.Join("/", c.dir, to); path.IsAbs(words[len(words)-1]) {
		to = path.Clean(words[len(words)-1])
	}
	mode := uint64(0)
	if text := flags["chmod"]; text != "" {
		var err error
		if mode, err = strconv.ParseUint(text, 8, 32); err != nil || mode == 0 || mode > 0o7777 {
			c.Add(in.Position, "write octal permissions, such as --chmod=0644", "the mode of COPY is %s", yamltree.Show(text))
		}
	}
	c.owner(in.Position, "--chown", flags["chown"])
	for _, from := range words[:len(words)-1] {
		if strings.ContainsAny(from, "*?[") {
			c.Add(in.Position, "name the file or its folder", "bakeoff reads no patterns in COPY")
		}
		s := Copy{From: c.local(in.Position, strings.TrimPrefix(from, "/")), To: to, Into: into, Mode: permissions(mode),
			Owner: flags["chown"]}
		c.step(in, Step{Copy: &s})
	}
}

func (c *containerfile) become(in instruction) {
	c.user = c.expand(in, in.rest)
	c.owner(in.Position, "USER", c.user)
}

func (c *containerfile) workdir(in instruction) {
	dir := c.expand(in, in.rest)
	if !path.IsAbs(dir) {
		dir = path.Join("/", c.dir, dir)
	}
	if c.dir = path.Clean(dir); c.dir != "/" {
		c.dir = c.absolute(in.Position, "WORKDIR", dir)
		c.step(in, Step{Folder: c.dir})
	}
}

func (c *containerfile) expose(in instruction) {
	for _, w := range c.words(in, in.rest) {
		if p := c.port(in.Position, w); !slices.Contains(c.d.Ports, p) {
			c.d.Ports = append(c.d.Ports, p)
		}
	}
}

func (c *containerfile) entrypoint(in instruction) { c.d.Entrypoint = c.command(in) }

func (c *containerfile) cmd(in instruction) { c.d.Cmd = c.command(in) }

func (c *containerfile) label(in instruction) {
	for _, p := range c.assignments(in) {
		if c.d.Labels == nil {
			c.d.Labels = map[string]string{}
		}
		c.d.Labels[p[0]] = p[1]
	}
}
