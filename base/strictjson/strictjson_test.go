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
