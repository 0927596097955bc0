package jsonschema

import (
	"reflect"
	"testing"
)

type word string

type table struct {
	Name  word            `yaml:"name"`
	Rows  []row           `yaml:"rows"`
	Notes map[string]word `yaml:"notes"`
	Line  int             `yaml:"-"`
}

type row struct {
	Share float64 `yaml:"share"`
	Count int     `yaml:"count"`
	Last  bool    `yaml:"last"`
}

func TestSchemaOfTypes(t *testing.T) {
	x := Types{
		Scalar: func(t reflect.Type) Object {
			if t.Kind() == reflect.String {
				return Object{"type": "string"}
			}
			return nil
		},
		Docs:     map[string]string{"row.share": "of all"},
		Rules:    map[string]Object{"table.name": {"type": nil, "const": "x"}, "row.count": {"minimum": 1}},
		Required: map[string][]string{"table": {"name"}},
	}
	const want = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "additionalProperties": false,
  "properties": {
    "name": {
      "const": "x"
    },
    "notes": {
      "additionalProperties": {
        "type": "string"
      },
      "type": "object"
    },
    "rows": {
      "items": {
        "additionalProperties": false,
        "properties": {
          "count": {
            "minimum": 1,
            "type": "integer"
          },
          "last": {
            "type": "boolean"
          },
          "share": {
            "description": "of all",
            "type": "number"
          }
        },
        "type": "object"
      },
      "type": "array"
    }
  },
  "required": [
    "name"
  ],
  "title": "a table",
  "type": "object"
}
`
	if got := string(Document(x.SchemaOf(reflect.TypeFor[table]()), "a table")); got != want {
		t.Errorf("got %s", got)
	}
}
