# A shop as a Rails application in one file: what stands between a browser and the server in the web experiments.
#
#   /items?first=N&mode=lazy|preload|join   a page of 500 items, each with its images and its category
#   /lookups?ids=s1,l2,...                  a page that reads rows of the tables `small` and `large` by primary key
#
# The tables are filled by lab/client (items-setup, lookup-setup). Each page is counted in Redis, as sites do. Where things
# are comes from the environment: DATABASE_URL, LAB_REDIS_PORT, LAB_THREADS. Started by src/lab/workload/web.py.
require "logger"
require "action_controller/railtie"
require "active_record/railtie"
require "redis"

class Shop < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.secret_key_base = "the shop has no secrets"
  config.hosts.clear
  config.logger = Logger.new($stderr, level: Logger::WARN)
  config.active_record.migration_error = false
  config.paths["app/views"] = "views"
  routes.append do
    get "/items", to: "pages#items"
    get "/lookups", to: "pages#lookups"
  end
end

class ItemCategory < ActiveRecord::Base; end

class ItemImage < ActiveRecord::Base; end

class Item < ActiveRecord::Base
  has_many :item_images
  belongs_to :item_category
end

class Small < ActiveRecord::Base
  self.table_name = "small"
end

class Large < ActiveRecord::Base
  self.table_name = "large"
end

class PagesController < ActionController::Base
  ITEMS_A_PAGE = 500
  # How a page names what it will need; lazy names nothing, and the view asks for each item.
  MODES = {"lazy" => [], "preload" => [:preload], "join" => [:eager_load]}.freeze

  def items
    page = Item.where("items.id >= ?", params[:first].to_i).order(:id).limit(ITEMS_A_PAGE)
    MODES.fetch(params[:mode]).each { |how| page = page.public_send(how, :item_images, :item_category) }
    @items = page.to_a
    count_visit
  end

  def lookups
    @rows = params[:ids].split(",").map { |id| (id[0] == "s" ? Small : Large).find(id[1..].to_i) }
    count_visit
  end

  private

  def count_visit
    Thread.current[:redis] ||= Redis.new(port: ENV.fetch("LAB_REDIS_PORT").to_i)
    @visits = Thread.current[:redis].incr("visits")
  end
end
