// Command bakeoff-agent is the program on the target.
package main

func main() {}
