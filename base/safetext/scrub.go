package safetext

import "reflect"

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
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scrubValue(v.Field(i), clean)
			}
		}
	case reflect.Slice, reflect.Array:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer:
			for i := range v.Len() {
				scrubValue(v.Index(i), clean)
			}
		}
	case reflect.Map:
		scrubMap(v, clean)
	}
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
