# Serves the Rails controller of docs/receivers.md.
require "action_controller/railtie"
require "puma"

class App < Rails::Application
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = false
  config.secret_key_base = "test"
  config.hosts.clear
  config.logger = Logger.new($stderr)
end
App.initialize!
require_relative "webhooks_controller"
App.routes.draw { post "/webhooks", to: "webhooks#create" }

server = Puma::Server.new(App)
server.add_tcp_listener("127.0.0.1", ENV.fetch("PORT").to_i)
server.run.join
