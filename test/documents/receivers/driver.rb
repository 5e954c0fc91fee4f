# Says of each folder that is named whether the receiver of the guide accepts the delivery in it.
require_relative "verify"

ARGV.each do |folder|
  headers = File.readlines("#{folder}/headers", chomp: true).to_h { |line| line.split(": ", 2) }
  puts verify(File.binread("#{folder}/body"), headers, File.read("#{folder}/secret"))
end
