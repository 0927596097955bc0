package service

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
)

// Schema is the first line of service.yaml.
const Schema = "bakeoff/service/v1"

// document is service.yaml.
type document struct {
	Schema      text            `yaml:"schema"`
	Name        text            `yaml:"name"`
	Base        text            `yaml:"base"`
	Packages    []text          `yaml:"packages"`
	Users       []user          `yaml:"users"`
	Files       []file          `yaml:"files"`
	Build       []command       `yaml:"build"`
	Network     bool            `yaml:"network"`
	Remove      []text          `yaml:"remove"`
	Run         command         `yaml:"run"`
	User        text            `yaml:"user"`
	Folder      text            `yaml:"folder"`
	Ports       []text          `yaml:"ports"`
	Environment map[string]text `yaml:"environment"`
	Labels      map[string]text `yaml:"labels"`
	Size        text            `yaml:"size"`
}

type user struct {
	Name  text `yaml:"name"`
	ID    text `yaml:"id"`
	Home  text `yaml:"home"`
	Shell text `yaml:"shell"`
}

type file struct {
	From  text `yaml:"from"`
	Text  text `yaml:"text"`
	To    text `yaml:"to"`
	Mode  text `yaml:"mode"`
	Owner text `yaml:"owner"`
}

// text is a value and its place.
type text struct {
	yamltree.Position
	Text string
	set  bool
}

// UnmarshalNode implements yamltree.Unmarshaler.
func (t *text) UnmarshalNode(n *yamltree.Node, r *yamltree.Reporter) {
	t.Position = n.Position
	if n.Kind != yamltree.Scalar {
		r.Add(n.Position, "write a single value", "this is %s", n.Kind)
		return
	}
	t.Text, t.set = n.Text, true
}

// command is a line for the shell, or a list of words.
type command struct {
	yamltree.Position
	argv []string
	text string
}

// UnmarshalNode implements yamltree.Unmarshaler.
func (c *command) UnmarshalNode(n *yamltree.Node, r *yamltree.Reporter) {
	c.Position = n.Position
	switch n.Kind {
	case yamltree.Scalar:
		c.argv, c.text = shell(n.Text), n.Text
		if n.Text == "" {
			r.Add(n.Position, "write a command", "the command is empty")
		}
	case yamltree.Sequence:
		for _, w := range n.Items {
			if w.Kind != yamltree.Scalar {
				r.Add(w.Position, "write a word", "a word of a command is %s", w.Kind)
			}
			c.argv = append(c.argv, w.Text)
		}
		if len(c.argv) == 0 || c.argv[0] == "" {
			r.Add(n.Position, "write a program and its arguments", "the command has no program")
		}
		c.text = fmt.Sprintf("%q", c.argv)
	default:
		r.Add(n.Position, "write a line for the shell, or a list of words", "a command is %s", n.Kind)
	}
}

// ParseYAML reads service.yaml. file is its name in messages, name that of its folder.
// Errors are of kind fault.Invalid.
func ParseYAML(file, name string, src []byte) (*Definition, error) {
	r := &yamltree.Reporter{File: file}
	root := yamltree.Parse(src, yamltree.Format{Name: "service", Schema: Schema}, r)
	if root == nil {
		return nil, r.Err()
	}
	var doc document
	yamltree.Decode(root, &doc, r)
	if r.Err() == nil && doc.Schema.Text != Schema {
		r.Add(yamltree.Position{Line: 1, Column: 1}, "begin with `schema: "+Schema+"`", "this is not a service")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	d := doc.definition(checker{r}, filepath.Base(file), name)
	return d, r.Err()
}

func (doc *document) definition(c checker, file, name string) *Definition {
	d := &Definition{Name: name, Base: doc.Base.Text, Env: []string{}, User: doc.User.Text}
	if doc.Name.set {
		d.Name = doc.Name.Text
	}
	c.name(doc.Name.Position, d.Name)
	for _, p := range doc.Packages {
		c.pkg(p.Position, p.Text)
		d.Packages = append(d.Packages, p.Text)
	}
	c.base(doc.Base.Position, d)
	for _, u := range doc.Users {
		d.Users = append(d.Users, c.user(u))
	}
	for _, f := range doc.Files {
		step := c.file(f)
		step.Where = fmt.Sprintf("%s:%d", file, f.To.Line)
		d.Steps = append(d.Steps, step)
	}
	d.Env = c.pairs(doc.Environment)
	for _, b := range doc.Build {
		c.text(b.Position, "the command", b.argv)
		d.Steps = append(d.Steps, Step{Where: fmt.Sprintf("%s:%d", file, b.Line), Text: b.text,
			Run: &Run{Argv: b.argv, Env: d.Env, Network: doc.Network}})
	}
	for _, p := range doc.Remove {
		d.Remove = append(d.Remove, c.absolute(p.Position, "remove", p.Text))
	}
	c.text(doc.Run.Position, "run", doc.Run.argv)
	if d.Cmd = doc.Run.argv; len(d.Cmd) > 0 && d.Base == Scratch && d.Cmd[0] == "/bin/sh" && len(d.Steps) == 0 {
		c.Add(doc.Run.Position, "write a list of words", "run is a line for a shell, and scratch has none")
	}
	c.owner(doc.User.Position, "user", d.User)
	if doc.Folder.set {
		d.Dir = c.absolute(doc.Folder.Position, "folder", doc.Folder.Text)
	}
	for _, p := range doc.Ports {
		d.Ports = append(d.Ports, c.port(p.Position, p.Text))
	}
	if len(doc.Labels) > 0 {
		d.Labels = map[string]string{}
	}
	for k, v := range doc.Labels {
		d.Labels[k] = v.Text
	}
	if doc.Size.set {
		size, err := unit.ParseBytes(doc.Size.Text)
		if err != nil || size < 8*unit.MiB {
			c.Add(doc.Size.Position, "write a size of at least 8MiB, such as 512MiB", "size is %s", yamltree.Show(doc.Size.Text))
		}
		d.Size = size
	}
	if len(d.Steps) > maxSteps {
		c.Add(yamltree.Position{Line: 1, Column: 1}, "make fewer", "the service has %d steps; the limit is %d",
			len(d.Steps), maxSteps)
	}
	return d
}

// pairs are variables in the order of their names.
func (c checker) pairs(all map[string]text) []string {
	out := []string{}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		c.variable(all[k].Position, k, all[k].Text)
		out = append(out, k+"="+all[k].Text)
	}
	return out
}

func (c checker) user(u user) User {
	out := User{Name: u.Name.Text, Home: "/", Shell: "/usr/sbin/nologin"}
	if !userForm.MatchString(out.Name) {
		c.Add(u.Name.Position, "use lower-case letters, digits, _ and -", "%s is not the name of a user",
			yamltree.Show(out.Name))
	}
	var err error
	if out.ID, err = strconv.Atoi(u.ID.Text); err != nil || out.ID < 1 || out.ID > 1<<31-2 {
		c.Add(u.ID.Position, "write id: and a number, such as 1000", "the user %s has no number", yamltree.Show(out.Name))
	}
	if u.Home.set {
		out.Home = c.absolute(u.Home.Position, "home", u.Home.Text)
	}
	if u.Shell.set {
		out.Shell = c.absolute(u.Shell.Position, "shell", u.Shell.Text)
	}
	return out
}

func (c checker) file(f file) Step {
	out := Copy{Text: f.Text.Text, Owner: f.Owner.Text, To: c.absolute(f.To.Position, "to", f.To.Text)}
	switch {
	case f.From.set == f.Text.set:
		c.Add(f.To.Position, "write one of from and text", "the file has neither or both of from and text")
	case f.From.set:
		out.From = c.local(f.From.Position, f.From.Text)
	}
	if f.Mode.set {
		m, err := strconv.ParseUint(f.Mode.Text, 8, 32)
		if err != nil || m == 0 || m > 0o7777 {
			c.Add(f.Mode.Position, "write octal permissions, such as 0644", "mode is %s", yamltree.Show(f.Mode.Text))
		}
		out.Mode = permissions(m)
	}
	c.owner(f.Owner.Position, "owner", out.Owner)
	return Step{Text: "copy to " + out.To, Copy: &out}
}

// permissions are the bits of Unix as Go has them.
func permissions(bits uint64) fs.FileMode {
	m := fs.FileMode(bits) & fs.ModePerm
	for bit, mode := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			m |= mode
		}
	}
	return m
}
