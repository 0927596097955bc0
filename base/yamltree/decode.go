package yamltree

import (
	"reflect"
	"strconv"
	"strings"
)

// Unmarshaler is a value that reads itself from a node, and reports what is
// wrong with the node to r.
type Unmarshaler interface {
	UnmarshalNode(n *Node, r *Reporter)
}

// Decode stores n in the value that v points to. Structs have the keys that
// their fields name as `yaml:"key"`; an empty value leaves its field alone.
// What does not fit is reported to r.
func Decode(n *Node, v any, r *Reporter) { r.decode(n, reflect.ValueOf(v).Elem(), "the file") }

func (r *Reporter) decode(n *Node, v reflect.Value, what string) {
	if u, ok := v.Addr().Interface().(Unmarshaler); ok {
		u.UnmarshalNode(n, r)
		return
	}
	if n.Kind == Null {
		return
	}
	wants := func(k Kind) bool {
		if n.Kind != k {
			r.Add(n.Position, "write "+k.String(), "%s is %s", what, n.Kind)
		}
		return n.Kind == k
	}
	switch v.Kind() {
	case reflect.Struct:
		if wants(Mapping) {
			r.decodeStruct(n, v, what)
		}
	case reflect.Slice:
		if !wants(Sequence) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
		for i, item := range n.Items {
			r.decode(item, v.Index(i), "an item of "+what)
		}
	case reflect.Map:
		if !wants(Mapping) {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for _, e := range n.Entries {
			item := reflect.New(v.Type().Elem()).Elem()
			r.decode(e.Value, item, e.Key.Text)
			v.SetMapIndex(reflect.ValueOf(e.Key.Text), item)
		}
	default:
		if wants(Scalar) {
			r.decodeScalar(n, v, what)
		}
	}
}

func (r *Reporter) decodeStruct(n *Node, v reflect.Value, what string) {
	fields := map[string]reflect.Value{}
	var known []string
	for i := range v.NumField() {
		if key := v.Type().Field(i).Tag.Get("yaml"); key != "" && key != "-" {
			fields[key] = v.Field(i)
			known = append(known, key)
		}
	}
	for _, e := range n.Entries {
		if f, ok := fields[e.Key.Text]; ok {
			r.decode(e.Value, f, e.Key.Text)
		} else {
			r.Add(e.Key.Position, Meant(e.Key.Text, known), "unknown key %s in %s", Show(e.Key.Text),
				strings.TrimPrefix(what, "an item of "))
		}
	}
}

func (r *Reporter) decodeScalar(n *Node, v reflect.Value, what string) {
	var err error
	fix := "write a number"
	var value any = n.Text
	switch v.Kind() {
	case reflect.Bool:
		value = n.Text == "true"
		if n.Text != "true" && n.Text != "false" {
			err, fix = strconv.ErrSyntax, "write true or false"
		}
	case reflect.Int:
		value, err = strconv.Atoi(n.Text)
		fix = "write a whole number"
	case reflect.Float64:
		value, err = strconv.ParseFloat(n.Text, 64)
		if strings.Trim(n.Text, "0123456789+-.eE") != "" {
			err = strconv.ErrSyntax // 1_000, 0x1p3 and inf
		}
	}
	if err != nil { // the field keeps its value: a check of a value that nobody wrote would report it again
		r.Add(n.Position, fix, "%s is %s", what, Show(n.Text))
		return
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
}
