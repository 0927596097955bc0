package report

import (
	"reflect"

	"bakeoff/base/safetext"
)

// ends shortens s to n runes at most, n > 2, of its beginning and its end: names
// that are made of parts often differ in the last.
func ends(s string, n int) string {
	rs := []rune(s)
	if len(rs) <= n {
		return s
	}
	return string(rs[:n/2]) + "…" + string(rs[len(rs)-(n-1)/2:])
}

// scrub cleans every string that v, a pointer, leads to, keys of maps
// included, so that no later place can forget to.
func scrub(v any) { scrubValue(reflect.ValueOf(v).Elem()) }

func scrubValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(safetext.Line(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			scrubValue(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scrubValue(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer:
			for i := range v.Len() {
				scrubValue(v.Index(i))
			}
		}
	case reflect.Map:
		scrubMap(v)
	}
}

// scrubMap replaces the entries of a map by clean ones: they cannot be
// changed in place.
func scrubMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for it := v.MapRange(); it.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(it.Key())
		value.Set(it.Value())
		scrubValue(key)
		scrubValue(value)
		out.SetMapIndex(key, value)
	}
	v.Set(out)
}
