package asv

import (
	"bytes"
	"encoding/json"
	"slices"

	"bakeoff/base/lazy"
)

// nan is a string, or NaN outside of a string.
var nan = lazy.Compile(`"(?:[^"\\]|\\.)*"|\bNaN\b`)

// skippedResults tells which results of each benchmark are NaN. asv writes NaN if a benchmark was skipped, and null if
// it failed; a Document has null for both.
func skippedResults(data []byte, columns []string) map[string][]bool {
	if !bytes.Contains(data, []byte("NaN")) {
		return nil
	}
	text := nan.ReplaceAllFunc(data, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		return []byte(`"NaN"`)
	})
	var file struct {
		Results map[string]json.RawMessage `json:"results"`
	}
	if json.Unmarshal(text, &file) != nil {
		return nil
	}
	out := map[string][]bool{}
	for name, value := range file.Results {
		var row []json.RawMessage
		var object struct {
			Result json.RawMessage `json:"result"`
		}
		if at := slices.Index(columns, "result"); at >= 0 && json.Unmarshal(value, &row) == nil && at < len(row) {
			value = row[at]
		} else if json.Unmarshal(value, &object) == nil && object.Result != nil {
			value = object.Result
		}
		var all []any
		var one any
		if json.Unmarshal(value, &all) != nil && json.Unmarshal(value, &one) == nil {
			all = []any{one}
		}
		for _, x := range all {
			out[name] = append(out[name], x == "NaN")
		}
	}
	return out
}
