package service

import (
	"reflect"

	"bakeoff/base/jsonschema"
)

// described says what the keys of service.yaml mean, by the name of their type and the
// key.
var described = map[string]string{
	"document.schema": "the version of the format: bakeoff/service/v1",
	"document.name":   "the name of the service; the default is that of the folder",
	"document.base": "the image to start from, as lab files name it; scratch for an empty root; or " +
		"unpacked:debian:SUITE for packages that are unpacked and not installed",
	"document.packages":    "packages of the distribution of base",
	"document.users":       "users and groups, each with the same name and number",
	"document.files":       "files and folders to copy, in this order",
	"document.build":       "commands that run in the root, in this order: lines for /bin/sh, or lists of words",
	"document.network":     "whether the commands of build have the network of this machine",
	"document.remove":      "paths to remove after the last command",
	"document.run":         "the program that starts: a line for /bin/sh, or a list of words",
	"document.user":        "the user of run, USER or USER:GROUP",
	"document.folder":      "the folder in which run starts",
	"document.ports":       "ports that the service listens on: 80, 53/udp",
	"document.environment": "variables of build and run",
	"document.labels":      "labels of the image",
	"document.size":        "size of the root file system on the disk; the default is what its files need and 64 MiB more",
	"user.name":            "the name",
	"user.id":              "the number of the user and of the group",
	"user.home":            "the home folder; the default is /",
	"user.shell":           "the default is /usr/sbin/nologin",
	"file.from":            "a file or folder next to service.yaml, or bakeoff:example-site",
	"file.text":            "the content of the file; instead of the key from",
	"file.to":              "an absolute path in the root",
	"file.mode":            "octal permissions",
	"file.owner":           "USER or USER:GROUP; the default is root",
}

// JSONSchema returns the JSON Schema (draft 2020-12) of service.yaml, for editors. It is
// indented and ends with a newline.
func JSONSchema() []byte {
	t := jsonschema.Types{Scalar: scalarSchema, Docs: described,
		Rules:    map[string]jsonschema.Object{"document.schema": {"const": Schema}},
		Required: map[string][]string{"document": {"schema", "base"}}}
	return jsonschema.Document(t.SchemaOf(reflect.TypeFor[document]()), "bakeoff service")
}

// scalarSchema is the schema of a text, and of a command: a line or a list of words.
func scalarSchema(t reflect.Type) jsonschema.Object {
	scalar := jsonschema.Object{"type": []string{"string", "integer", "number", "boolean"}}
	switch t {
	case reflect.TypeFor[text]():
		return scalar
	case reflect.TypeFor[command]():
		return jsonschema.Object{"anyOf": []any{jsonschema.Object{"type": "string"},
			jsonschema.Object{"type": "array", "minItems": 1, "items": scalar}}}
	}
	return nil
}
