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
		return
	}
	x.prefix, x.nodes = prefix, map[string]*yamltree.Node{"": n}
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
	prefix   string
	made     func(path string) bool // of the paths of disks; nil is none
}

func (x *reader) add(path, reason, allowed string) {
	p := Problem{File: x.file, Path: x.prefix + path, Reason: reason, Allowed: allowed}
	at := path
	for {
		if n := x.nodes[at]; n != nil {
			p.Line, p.Column = n.Line, n.Column
			if at == path {
				p.Value = shown(n)
			}
			break
		}
		cut := strings.LastIndexByte(at, '.')
		if cut < 0 {
			if n := x.nodes[""]; n != nil {
				p.Line, p.Column = n.Line, n.Column
			}
			break
		}
		at = at[:cut]
	}
	if len(x.problems) < maxProblems {
		x.problems = append(x.problems, p)
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
	x.prefix, x.nodes = prefix, map[string]*yamltree.Node{"": n}
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
			x.add(path, "it is "+n.Kind.String(), "write "+k.String())
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
	case reflect.Bool:
		if n.Text != "true" && n.Text != "false" || n.Kind != yamltree.Scalar {
			x.add(path, "it is not a truth value", "write true or false")
		}
		v.SetBool(n.Text == "true")
	case reflect.Int:
		if n.Kind == yamltree.Null || n.Kind == yamltree.Scalar && n.Text == "" {
			return
		}
		i, err := strconv.Atoi(n.Text)
		if err != nil || !integer.MatchString(n.Text) || n.Kind != yamltree.Scalar {
			x.add(path, "it is not a whole number", "write at most nine digits")
		}
		v.SetInt(int64(i))
	default:
		if n.Kind != yamltree.Null && wants(yamltree.Scalar) {
			v.SetString(n.Text)
		}
	}
}

func (x *reader) decodeProperties(n *yamltree.Node, v reflect.Value, path string) {
	fields, names := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name], names = v.Field(i), append(names, name)
	}
	for _, e := range n.Entries {
		at := join(path, e.Key.Text)
		if f, ok := fields[e.Key.Text]; ok {
			x.decode(e.Value, f, at)
			continue
		}
		x.nodes[at] = e.Value
		x.add(at, "unknown property", yamltree.Meant(e.Key.Text, names))
	}
}

// decodeList skips items that are the empty string, which unsets a string.
func (x *reader) decodeList(n *yamltree.Node, v reflect.Value, path string) {
	items := n.Items
	simple := v.Type().Elem().Kind() != reflect.Struct
	switch {
	case n.Kind == yamltree.Scalar && simple && n.Text != "":
		for part := range strings.SplitSeq(n.Text, ",") {
			item := *n
			item.Text = strings.TrimSpace(part)
			items = append(items, &item)
		}
	case n.Kind != yamltree.Sequence:
		x.add(path, "it is "+n.Kind.String(), "write a list")
		return
	}
	const most = 64
	if len(items) > most {
		x.add(path, "it has "+strconv.Itoa(len(items))+" items", "write at most "+strconv.Itoa(most))
		return
	}
	for i, item := range items {
		if simple && item.Kind == yamltree.Scalar && item.Text == "" {
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
