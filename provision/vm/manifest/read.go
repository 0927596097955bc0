package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/yamltree"
)

// Read reads a manifest in JSON or YAML with one guest, or with a list of guests. It
// reports every mistake at once: the error is of kind fault.Invalid and holds Problems.
// Properties that are absent get their defaults; MAC addresses and UUIDs do not.
func Read(file string, src []byte) ([]Guest, error) {
	d, err := ReadAll(file, src)
	return d.Guests, err
}

// Document is what a manifest describes.
type Document struct {
	Guests   []Guest
	Networks []Network
	file     string
	places   []place // of the guests
}

// place is a guest in a file: the beginning of its paths, and the values by the rest of their paths.
type place struct {
	prefix string
	nodes  map[string]*yamltree.Node
}

// Locate gives problems of a guest of the document, which another check has found, their places in the file.
func (d Document) Locate(guest int, problems Problems) Problems {
	for i := range problems {
		p := &problems[i]
		p.File = d.file
		if n, _ := placeOf(d.places[guest].nodes, p.Path); n != nil {
			p.Line, p.Column = n.Line, n.Column
		}
		p.Path = d.places[guest].prefix + p.Path
	}
	return problems
}

// ReadAll is Read for a manifest that may describe networks, too.
func ReadAll(file string, src []byte) (Document, error) {
	return (&reader{file: file}).readAll(src)
}

// ReadRecord is Read for the record of a guest that exists: a disk that bakeoff made may have
// a path for which made returns true.
func ReadRecord(file string, src []byte, made func(path string) bool) ([]Guest, error) {
	d, err := (&reader{file: file, made: made}).readAll(src)
	return d.Guests, err
}

func (x *reader) readAll(src []byte) (Document, error) {
	file := x.file
	if json.Valid(src) { // strings of JSON hold no raw tab, and YAML allows none before a value
		src = bytes.ReplaceAll(src, []byte("\t"), []byte(" "))
	}
	r := &yamltree.Reporter{File: file}
	root := yamltree.Parse(src, yamltree.Format{Name: "manifest"}, r)
	if err := r.Err(); err != nil {
		return Document{}, err
	}
	var out Document
	switch {
	case root == nil || root.Kind == yamltree.Null:
		x.problems = Problems{{File: file, Line: 1, Column: 1, Reason: "the file is empty", Allowed: "describe a guest"}}
	case root.Kind == yamltree.Sequence && len(root.Items) == 0:
		x.problems = Problems{{File: file, Line: root.Line, Column: root.Column, Reason: "the list is empty",
			Allowed: "describe a guest"}}
	case root.Kind == yamltree.Sequence:
		for i, item := range root.Items {
			x.readItem(item, strconv.Itoa(i)+".", &out)
		}
	default:
		x.readItem(root, "", &out)
	}
	if len(x.problems) > 0 {
		return Document{}, fault.Wrap(fault.Invalid, "", x.problems)
	}
	return out, nil
}

// readItem reads a guest, or a network, which has the property network.
func (x *reader) readItem(n *yamltree.Node, prefix string, into *Document) {
	if !slices.ContainsFunc(n.Entries, func(e yamltree.Entry) bool { return e.Key.Text == "network" }) {
		into.Guests = append(into.Guests, x.readGuest(n, prefix))
		into.file, into.places = x.file, append(into.places, place{prefix, x.nodes})
		return
	}
	x.begin(n, prefix)
	before, net := len(x.problems), Network{}
	x.decode(n, reflect.ValueOf(&net).Elem(), "")
	if len(x.problems) == before {
		x.checkNetwork(&net)
	}
	for _, other := range into.Networks {
		if other.Name == net.Name {
			x.add("network", "the file describes this network twice", "remove one of them")
		}
	}
	into.Networks = append(into.Networks, net)
}

// ProblemsOf returns the mistakes that an error of Read holds.
func ProblemsOf(err error) Problems {
	var p Problems
	if errors.As(err, &p) {
		return p
	}
	return nil
}

// maxProblems bounds the mistakes that are reported.
const maxProblems = 100

type reader struct {
	file     string
	problems Problems
	nodes    map[string]*yamltree.Node // by path, in the guest that is read
	bad      map[string]bool           // the paths of values of another type than the property has
	prefix   string
	made     func(path string) bool // of the paths of disks; nil is none
}

func (x *reader) add(path, reason, allowed string) {
	for at := path; ; at = above(at) {
		if x.bad[at] {
			return // what it should be cannot be checked
		}
		if at == "" {
			break
		}
	}
	p := Problem{File: x.file, Path: x.prefix + path, Reason: reason, Allowed: allowed}
	if n, exact := placeOf(x.nodes, path); n != nil {
		p.Line, p.Column = n.Line, n.Column
		if exact {
			p.Value = shown(n)
		}
	}
	if len(x.problems) < maxProblems {
		x.problems = append(x.problems, p)
	}
}

// wrong is add for a value of another type than the property has.
func (x *reader) wrong(path, reason, allowed string) {
	x.add(path, reason, allowed)
	if x.bad == nil {
		x.bad = map[string]bool{}
	}
	x.bad[path] = true
}

// begin reads a further guest or network.
func (x *reader) begin(n *yamltree.Node, prefix string) {
	x.prefix, x.nodes, x.bad = prefix, map[string]*yamltree.Node{"": n}, nil
}

// above is the path of the property that contains the one at a path; "" is the whole guest.
func above(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// placeOf is the value at a path, or else at the nearest path above it.
func placeOf(nodes map[string]*yamltree.Node, path string) (n *yamltree.Node, exact bool) {
	for at := path; ; at = above(at) {
		if n := nodes[at]; n != nil || at == "" {
			return n, at == path
		}
	}
}

func shown(n *yamltree.Node) string {
	switch n.Kind {
	case yamltree.Scalar:
		if n.Quoted || !plainValue.MatchString(n.Text) {
			return yamltree.Show(n.Text)
		}
		return n.Text
	case yamltree.Null:
		return "null"
	}
	return n.Kind.String()
}

var (
	plainValue = lazy.Compile(`^(true|false|-?[0-9]{1,18}(\.[0-9]{1,18})?)$`)
	integer    = lazy.Compile(`^-?[0-9]{1,9}$`)
)

func (x *reader) readGuest(n *yamltree.Node, prefix string) Guest {
	x.begin(n, prefix)
	before := len(x.problems)
	g := Guest{Autoboot: true}
	x.decode(n, reflect.ValueOf(&g).Elem(), "")
	if len(x.problems) == before || n.Kind == yamltree.Mapping {
		x.checkGuest(&g)
	}
	return g
}

// decode stores n in v. Digits and truth values may be strings, a list may be one string
// with commas, and null or "" leaves integers and strings unset.
func (x *reader) decode(n *yamltree.Node, v reflect.Value, path string) {
	x.nodes[path] = n
	wants := func(k yamltree.Kind) bool {
		if n.Kind != k {
			x.wrong(path, "it is "+n.Kind.String(), "write "+k.String())
		}
		return n.Kind == k
	}
	switch v.Kind() {
	case reflect.Struct:
		if wants(yamltree.Mapping) {
			x.decodeProperties(n, v, path)
		}
	case reflect.Slice:
		x.decodeList(n, v, path)
	case reflect.Map:
		if wants(yamltree.Mapping) {
			x.decodeMap(n, v, path)
		}
	case reflect.Bool: // vmadm takes 1 and 0, too
		if !slices.Contains([]string{"true", "false", "1", "0"}, n.Text) || n.Kind != yamltree.Scalar {
			x.wrong(path, "it is not a truth value", "write true or false")
		}
		v.SetBool(n.Text == "true" || n.Text == "1")
	case reflect.Int:
		if unset(n) {
			return
		}
		i, err := strconv.Atoi(n.Text)
		if err != nil || !integer.MatchString(n.Text) || n.Kind != yamltree.Scalar {
			x.wrong(path, "it is not a whole number", "write at most nine digits")
		}
		v.SetInt(int64(i))
	default:
		switch {
		case unset(n):
			if x.made == nil && isUUID(path) {
				x.wrong(path, "it is empty", "write a UUID, or remove the property")
			}
		case wants(yamltree.Scalar) && x.isText(n, path):
			v.SetString(n.Text)
		}
	}
}

// unset tells whether a value leaves a number or a text unset, as for vmadm.
func unset(n *yamltree.Node) bool {
	return n.Kind == yamltree.Null || n.Kind == yamltree.Scalar && strings.TrimSpace(n.Text) == ""
}

// isUUID tells the properties that vmadm does not unset.
func isUUID(path string) bool {
	name := path[strings.LastIndexByte(path, '.')+1:]
	return slices.Contains([]string{"uuid", "image_uuid", "network_uuid"}, name)
}

// lenient are the properties of which a number or a truth value is a text, too: sleep 10 and true are programs.
var lenient = []string{"command", "entrypoint", "environment", "user", "ports"}

// isText refuses numbers and truth values in place of texts, as vmadm does. A list may contain numbers.
func (x *reader) isText(n *yamltree.Node, path string) bool {
	first, _, item := strings.Cut(path, ".")
	if slices.Contains(lenient, first) {
		return true
	}
	item = item && x.nodes[above(path)].Kind != yamltree.Mapping
	switch {
	case n.Quoted || !json.Valid([]byte(n.Text)):
	case n.Text == "true" || n.Text == "false":
		x.wrong(path, "it is a truth value", "write a text: "+strconv.Quote(n.Text))
		return false
	case !item:
		x.wrong(path, "it is a number", "write a text: "+strconv.Quote(n.Text))
		return false
	}
	if strings.ContainsFunc(n.Text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		x.wrong(path, "it contains a control character", "remove it")
		return false
	}
	return true
}

func (x *reader) decodeProperties(n *yamltree.Node, v reflect.Value, path string) {
	fields, names := map[string]reflect.Value{}, namesOf(v.Type())
	for i, name := range names {
		fields[name] = v.Field(i)
	}
	for _, e := range n.Entries {
		at := join(path, e.Key.Text)
		if f, ok := fields[e.Key.Text]; ok {
			x.decode(e.Value, f, at)
			continue
		}
		x.nodes[at] = e.Value
		x.add(at, "unknown property", meant(e.Key.Text, names, v.Type()))
	}
}

// meant says what to write instead of an unknown property of t, which has other names.
func meant(name string, names []string, t reflect.Type) string {
	allowed := yamltree.Meant(name, names)
	if where := belongs(name, t); where != "" && !strings.HasPrefix(allowed, "did you mean") {
		return "write it " + where
	}
	return allowed
}

// namesOf are the names of the properties of a guest or a part of it.
func namesOf(t reflect.Type) (out []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// belongs says where a property stands that is not one of t; "" if it is none of a guest.
func belongs(name string, t reflect.Type) string {
	if t == reflect.TypeFor[Network]() {
		return ""
	}
	parts := []struct {
		where string
		of    reflect.Type
	}{{"in an item of nics", reflect.TypeFor[NIC]()}, {"in an item of disks", reflect.TypeFor[Disk]()},
		{"in an item of filesystems", reflect.TypeFor[Filesystem]()}, {"beside brand", reflect.TypeFor[Guest]()}}
	for _, p := range parts {
		if p.of != t && slices.Contains(namesOf(p.of), name) {
			return p.where
		}
	}
	if slices.Contains([]string{"root_authorized_keys", "user-script", "user-data"}, name) {
		return "in customer_metadata"
	}
	return ""
}

// decodeList skips items that are the empty string, which unsets a string.
func (x *reader) decodeList(n *yamltree.Node, v reflect.Value, path string) {
	items := n.Items
	simple := v.Type().Elem().Kind() != reflect.Struct
	switch {
	case n.Kind == yamltree.Scalar && (path == "command" || path == "entrypoint") && strings.ContainsAny(n.Text, " \t,"):
		words, _ := json.Marshal(strings.Fields(n.Text))
		x.wrong(path, "it is one text, and bakeoff runs no shell that divides it", "write a list, such as "+string(words))
		return
	case n.Kind == yamltree.Scalar && simple && n.Text != "":
		for part := range strings.SplitSeq(n.Text, ",") {
			item := *n
			item.Text = strings.TrimSpace(part)
			items = append(items, &item)
		}
	case n.Kind != yamltree.Sequence:
		x.wrong(path, "it is "+n.Kind.String(), "write a list")
		return
	}
	const most = 64
	if len(items) > most {
		x.add(path, "it has "+strconv.Itoa(len(items))+" items", "write at most "+strconv.Itoa(most))
		return
	}
	for i, item := range items {
		if simple && item.Kind == yamltree.Scalar && unset(item) {
			continue
		}
		one := reflect.New(v.Type().Elem()).Elem()
		x.decode(item, one, join(path, strconv.Itoa(i)))
		v.Set(reflect.Append(v, one))
	}
}

// decodeMap reads metadata and the like: flat, with strings, numbers and truth values.
func (x *reader) decodeMap(n *yamltree.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range n.Entries {
		at := join(path, e.Key.Text)
		x.nodes[at] = e.Value
		if e.Value.Kind != yamltree.Scalar {
			x.add(at, "it is "+e.Value.Kind.String(), "write a string, a number or a truth value")
			continue
		}
		var value any = e.Value.Text
		if v.Type().Elem().Kind() == reflect.Interface && !e.Value.Quoted {
			switch {
			case e.Value.Text == "true" || e.Value.Text == "false":
				value = e.Value.Text == "true"
			case plainValue.MatchString(e.Value.Text) && json.Valid([]byte(e.Value.Text)):
				value = json.Number(e.Value.Text)
			}
		}
		v.SetMapIndex(reflect.ValueOf(e.Key.Text), reflect.ValueOf(value))
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
