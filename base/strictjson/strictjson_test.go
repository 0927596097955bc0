package strictjson

import (
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"n": 1}`:            "",
		" {\"n\": 1} \n\t":    "",
		``:                    "not the expected JSON: EOF",
		`{"n": 1`:             "not the expected JSON: unexpected EOF",
		`{"n": "1"}`:          "not the expected JSON: json: cannot unmarshal",
		`{"n": 1, "m": 2}`:    `not the expected JSON: json: unknown field "m"`,
		`{"n": 1} {"n": 1}`:   "more text follows the JSON value",
		`{"n": 1}}`:           "more text follows the JSON value",
		`{"n": 1} and a note`: "more text follows the JSON value",
	} {
		var v struct {
			N int `json:"n"`
		}
		err := Decode([]byte(text), &v)
		switch {
		case want == "" && (err != nil || v.N != 1):
			t.Errorf("%q: %d, %v", text, v.N, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A decoder that is used again decodes each text as a new one does, also after an error.
func TestDecoderIsUsedAgain(t *testing.T) {
	texts := []string{"{\"n\": 1}\n", `{"n": 2} {"n": 3}`, `{"n": 4}`, "", `{"n": 5`, " {\"n\": 6} \n\t", `{"n": "7"}`,
		`{"n": 8}` + strings.Repeat(" ", 5000), `{"n": 9}` + strings.Repeat(" ", 5000) + "x", `{"n": 10, "m": 2}`,
		`{"n": 11}}`, `{"n": 12}`}
	var d Decoder
	for range 2 {
		for _, text := range texts {
			var again, fresh struct{ N int }
			err, want := d.Decode([]byte(text), &again), Decode([]byte(text), &fresh)
			if again != fresh || (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
				t.Errorf("%.20q: %v, %v; a new decoder: %v, %v", text, again, err, fresh, want)
			}
		}
	}
}
