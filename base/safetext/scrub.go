package safetext

import (
	"reflect"
	"sync"
)

// Scrub replaces every string that v, a pointer, leads to by what clean returns, keys
// of maps included, so that no later place can forget to. clean is Line or Text.
func Scrub(v any, clean func(string) string) { scrubValue(reflect.ValueOf(v).Elem(), clean) }

func scrubValue(v reflect.Value, clean func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(clean(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			scrubValue(v.Elem(), clean)
		}
	case reflect.Struct:
		for _, i := range fieldsOf(v.Type()) {
			scrubValue(v.Field(i), clean)
		}
	case reflect.Slice, reflect.Array:
		if mayHoldText(v.Type()) {
			for i := range v.Len() {
				scrubValue(v.Index(i), clean)
			}
		}
	case reflect.Map:
		scrubMap(v, clean)
	}
}

// fields are those that fieldsOf found, by type: reflection allocates for each.
var fields sync.Map

// fieldsOf are the exported fields of a struct type that may lead to a string.
func fieldsOf(t reflect.Type) []int {
	if known, ok := fields.Load(t); ok {
		return known.([]int)
	}
	var out []int
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && mayHoldText(f.Type) {
			out = append(out, i)
		}
	}
	fields.Store(t, out)
	return out
}

// mayHoldText reports whether a value of a type may lead to a string.
func mayHoldText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Map:
		return true
	case reflect.Struct:
		return len(fieldsOf(t)) > 0
	case reflect.Slice, reflect.Array, reflect.Pointer:
		switch t.Elem().Kind() { // no further: a type may contain itself
		case reflect.String, reflect.Struct, reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer:
			return true
		}
	}
	return false
}

// scrubMap replaces the entries of a map by clean ones: they cannot be
// changed in place.
func scrubMap(v reflect.Value, clean func(string) string) {
	if v.IsNil() {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for it := v.MapRange(); it.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(it.Key())
		value.Set(it.Value())
		scrubValue(key, clean)
		scrubValue(value, clean)
		out.SetMapIndex(key, value)
	}
	v.Set(out)
}
