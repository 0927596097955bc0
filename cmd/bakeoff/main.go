// Command bakeoff compares isolation technologies and systems, and shows its
// evidence.
package main

func main() {}
